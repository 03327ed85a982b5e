"""This machine's peaks, measured by a small probe and cached. ``probe_figures.py`` reads what it prints."""

import contextlib
import datetime
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from filelock import FileLock
from pydantic import ValidationError

from kernelwright.core.errors import MachineError
from kernelwright.core.frozen import content_hash
from kernelwright.core.machine import Cache
from kernelwright.core.roofline import MEMORY, PROBE_VERSION, LevelRate, Peaks, PeakSpread
from kernelwright.machine.compiler import CompileFailure, compile_library
from kernelwright.machine.device_lease import lease_processor
from kernelwright.machine.object_code import count_fma
from kernelwright.machine.probe_figures import QUIET, Figures, read_figures
from kernelwright.machine.topology import (
    Caches,
    available_memory,
    cache_levels,
    caches,
    isa,
    n_threads,
    processor_model,
)

_FLAGS = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno")
_LARGEST = 384 << 20
_ROUNDS = 5
_BUDGET_S = 0.003
"""Of one figure in one round."""
_LIMIT_S = 5.0
"""After this time no sample is taken again, however busy the machine is, and no round begins."""
_IN_CACHE = 1.5
"""A last-level cache counts as one where it is this many times as fast as memory: on a virtual machine it may
be named and not be there."""
_UNKNOWN_UNITS = ("amx", "avx512_fp16", "bf16", "i8mm", "sve", "fphp", "asimdhp")
_PROBE = """
import ctypes, sys
library, threads, rounds, budget_s, quiet, limit_s, *words = sys.argv[1:]
array = (ctypes.c_int64 * len(words))(*map(int, words))
efforts = [ctypes.c_double(float(word)) for word in (budget_s, quiet, limit_s)]
sys.exit(ctypes.CDLL(library).probe(int(threads), array, len(words) // 2, int(rounds), *efforts))
"""

NOISY_KEPT_S = 600.0
"""Seconds for which disturbed peaks are used before they are measured again; our choice."""


def measure_peaks(cache_dir: Path, *, refresh: bool = False) -> Peaks:
    """Return the machine's peaks: from the cache when there, else measured (a few seconds).

    Each figure is the median over rounds that lie apart in time, of quiet samples: threads waited for a core
    for less than 4 % of each. Bandwidth is that of the best pattern (reading, writing, copying, triad; with
    and without streaming stores, passes in one direction or to and fro), by working set. With a very large
    shared last-level cache even the largest working set may be partly cached, so ``bandwidth_gbps`` is a
    ceiling for repeated calls, not a DRAM figure.

    Where no sample of a figure was quiet, the fastest counts, by processor time: what the threads would reach
    if nothing else ran. Peaks that other work disturbed so (``is_noisy``) are measured again when asked for
    ten minutes later or more: on a busy machine every command would measure. ``refresh`` measures again in
    any case. A quiet measurement takes the place of whatever was there, higher or lower; a disturbed one does
    not replace a quiet one.

    Raises:
        MachineError: no compiler, too little memory, or the cache folder cannot be written.
    """
    path = _path(cache_dir)
    known = _load(path)
    if known is not None and not refresh and (not known.is_noisy or _age_s(path) < NOISY_KEPT_S):
        return known
    try:
        with _alone(cache_dir):
            now = _load(path)
            if now is not None and now != known and (not now.is_noisy or not refresh):
                return now  # another process has just measured
            return _kept(path, _measure(cache_dir, _working_sets(caches(), available_memory())))
    except OSError as error:
        raise MachineError(f"cannot keep the measured peaks in {cache_dir}: {error}") from error


def _age_s(path: Path) -> float:
    """Return the seconds since the file was written; a clock that was set back makes it new."""
    return max(time.time() - path.stat().st_mtime, 0.0)


def measure_again(cache_dir: Path) -> Peaks:
    """Return what a new measurement gives, quiet or not; the cache gets it as in ``measure_peaks``.

    Raises:
        MachineError: as ``measure_peaks``.
    """
    try:
        with _alone(cache_dir):
            found = _measure(cache_dir, _working_sets(caches(), available_memory()))
            _kept(_path(cache_dir), found)
            return found
    except OSError as error:
        raise MachineError(f"cannot keep the measured peaks in {cache_dir}: {error}") from error


@contextlib.contextmanager
def _alone(cache_dir: Path) -> Iterator[None]:
    """Hold the cache folder's lock and the processor: two measurements at once would halve their figures."""
    cache_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(cache_dir / "peaks.lock"), lease_processor():
        yield


def _path(cache_dir: Path) -> Path:
    sizes = _working_sets(caches(), available_memory())
    parts = (processor_model(), str(n_threads()), *map(str, sizes), _probe_source(), *_FLAGS)
    return cache_dir / f"peaks{PROBE_VERSION}-{content_hash(*parts)}.json"


def _working_sets(cached: Caches, available: int | None) -> tuple[int, ...]:
    """Return the sizes (bytes) to measure: inside each level, then doubling up to the largest."""
    largest = min(_LARGEST, (available or _LARGEST * 4) // 4)
    inside = [cached.l1 // 2, cached.l1 * 3 // 4, cached.l2 // 4, cached.l2 // 2, cached.l2 * 3 // 4]
    inside += [cached.l3 // 2] if cached.l3 else []
    beyond = [_LARGEST >> shift for shift in range(7) if _LARGEST >> shift > cached.l2]
    return tuple(sorted({size for size in [*inside, *beyond] if size <= largest}))


def _one_thread(levels: Sequence[Cache], largest: int) -> dict[int, int]:
    """Return the working set (bytes) by level at which one thread is measured."""
    inside = {cache.level: cache.instance_bytes // 2 for cache in levels}
    return {**{level: size for level, size in inside.items() if size < largest}, MEMORY: largest}


def _all_threads(levels: Sequence[Cache], sizes: Sequence[int]) -> dict[int, int]:
    """Return the working set (bytes) by level at which all threads are measured, one of ``sizes``."""
    inside = {cache.level: cache.instance_bytes * cache.instances // 2 for cache in levels}
    return {**{level: size for level, size in inside.items() if size in sizes}, MEMORY: max(sizes)}


@cache
def _probe_source() -> str:
    return Path(__file__).with_name("peaks.cpp").read_text(encoding="utf-8")


def _load(path: Path) -> Peaks | None:
    """Return the cached peaks, None when there are none of this probe or the file is damaged."""
    try:
        found = Peaks.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None
    return found if found.probe == PROBE_VERSION else None


def _kept(path: Path, new: Peaks) -> Peaks:
    """Keep new peaks, unless they are noisy and the known ones are not; return what is kept."""
    known = _load(path)
    if known is not None and new.is_noisy and not known.is_noisy:
        return known
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(new.model_dump_json(indent=1), encoding="utf-8")
    os.replace(partial, path)
    return new


def _measure(cache_dir: Path, sizes: Sequence[int]) -> Peaks:
    built = compile_library(_probe_source(), _FLAGS, cache_dir)
    if isinstance(built, CompileFailure):
        raise MachineError(f"the compiler cannot build the peak probe: {built.log.splitlines()[0]}")
    alone = _one_thread(cache_levels(), max(sizes))
    requests = [*((n_threads(), size) for size in sizes), *((1, size) for size in alone.values())]
    found = read_figures(_run_probe(built.path, list(dict.fromkeys(requests))), n_threads())
    return _peaks_of(found, sizes, count_fma(built.path, "fma_compiled"))


def _peaks_of(found: Figures, sizes: Sequence[int], instructions: int | None) -> Peaks:
    """Make the peaks from what the probe printed and from the count of its multiply-adds."""
    check = found.fma_check(instructions)
    cached = _cache_bytes(found, caches(), max(sizes))
    in_cache = min((size for size in sizes if size >= cached // 2), default=max(sizes))
    today = datetime.date.today()
    levels = cache_levels()
    return Peaks(
        device=processor_model(),
        n_threads=n_threads(),
        bandwidth_gbps=found.best(max(sizes)).median,
        cache_bandwidth_gbps=found.best(in_cache).median,
        cache_bytes=cached,
        fma_gflops=found.fma(check).median,
        source=f"measured {today.isoformat()}",
        probe=PROBE_VERSION,
        measured_on=today,
        spread=PeakSpread(
            bandwidth_gbps=found.best(max(sizes)),
            cache_bandwidth_gbps=found.best(in_cache),
            fma_gflops=found.fma(check),
        ),
        waited=found.waited,
        is_noisy=found.is_noisy or not check.do_agree,
        curve=found.curve(sizes),
        levels=(
            *_level_rates(found, 1, _one_thread(levels, max(sizes))),
            *(_level_rates(found, n_threads(), _all_threads(levels, sizes)) if n_threads() > 1 else ()),
        ),
        functions=tuple(found.functions().items()),
        rounded_gflops=None if has_unknown_units(isa()) else found.rounded(check),
        fma_check=check,
        fma_in_flight=found.fma_in_flight(),
    )


def has_unknown_units(extensions: Sequence[str]) -> bool:
    """True for processors that multiply 16-bit numbers in units that the probe does not use."""
    return any(name.startswith(_UNKNOWN_UNITS) for name in extensions)


def _cache_bytes(found: Figures, cached: Caches, largest: int) -> int:
    """Return the size of the last level that is clearly faster than memory, all instances together."""
    half = (cached.l3 or 0) // 2
    if half and half < largest and found.knows(half):
        is_fast = found.best(half).median > _IN_CACHE * found.best(largest).median
        return cached.l3 if is_fast and cached.l3 else cached.l2
    return cached.l2


def _level_rates(found: Figures, threads: int, working_sets: dict[int, int]) -> list[LevelRate]:
    return [
        LevelRate(
            level=level,
            threads=threads,
            working_set=size,
            read_gbps=found.rate("read", threads, size),
            write_gbps=found.rate("write", threads, size),
            copy_gbps=found.rate("copy", threads, size),
        )
        for level, size in sorted(working_sets.items(), key=lambda pair: pair[1])
    ]


def _run_probe(library: Path, requests: Sequence[tuple[int, int]]) -> str:
    """Run the probe in a process of its own: OpenMP used here would break later forks."""
    words = [word for pair in requests for word in pair]
    efforts = [n_threads(), _ROUNDS, _BUDGET_S, QUIET, _LIMIT_S]
    command = [sys.executable, "-I", "-S", "-c", _PROBE, str(library), *map(str, [*efforts, *words])]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_DYNAMIC": "false"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise MachineError(f"the peak probe gave no answer within {error.timeout:.0f} s") from error
    except OSError as error:
        raise MachineError(f"the peak probe did not run: {error}") from error
    if done.returncode:
        raise MachineError(f"the peak probe did not run: {_why(library, done)}")
    return done.stdout


def _why(library: Path, done: subprocess.CompletedProcess[str]) -> str:
    """Return one line about why a probe failed: a noexec mount, or the last line of its errors."""
    if os.statvfs(library.parent).f_flag & os.ST_NOEXEC:
        return f"{library.parent} is mounted noexec; put the cache where code may run (KERNELWRIGHT_CACHE)"
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"it ended with code {done.returncode}"
