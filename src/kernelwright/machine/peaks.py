"""This machine's ceilings, measured once by a small probe of our own and cached."""

import datetime
import fcntl
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from kernelwright.core.errors import MachineError
from kernelwright.core.frozen import content_hash
from kernelwright.core.roofline import BandwidthPoint, Peaks, PeakSpread, Spread
from kernelwright.machine.compiler import CompileFailure, compile_library
from kernelwright.machine.topology import Caches, available_memory, caches, n_threads, processor_model

_FLAGS = ("-O3", "-march=native", "-fopenmp")
_LARGEST = 384 << 20
_PROBE = """
import ctypes, sys
sizes = [int(word) for word in sys.argv[3:]]
array = (ctypes.c_int64 * len(sizes))(*sizes)
sys.exit(ctypes.CDLL(sys.argv[1]).probe(int(sys.argv[2]), array, len(sizes), ctypes.c_double(0.005)))
"""


def measure_peaks(cache_dir: Path, *, refresh: bool = False) -> Peaks:
    """Return the machine's peaks: from the cache when there, else measured (a few seconds).

    Bandwidth is the best over reading, filling, copying and triad, with and without streaming stores, at
    working sets from the first-level caches to 384 MB: what one sustained pattern reaches when repeated
    over the same data. On a machine with a very large shared last-level cache even the largest of these
    may be partly cached, so ``bandwidth_gbps`` is a ceiling for repeated calls, not a DRAM figure.
    A busy machine measures too low; ``refresh`` measures again and keeps the better of old and new, so
    whoever is about to hold a figure against a kernel should refresh first.

    Raises:
        MachineError: no compiler, too little memory, or the cache folder cannot be written.
    """
    sizes = _working_sets(caches(), available_memory())
    path = cache_dir / f"peaks-{_key(sizes)}.json"
    known = _load(path)
    if known is not None and not refresh:
        return known
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with (cache_dir / "peaks.lock").open("w", encoding="utf-8") as lock:
            # Two measurements at once would halve each other's figures.
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = _load(path)
            if known is None or refresh:
                known = _better(_measure(cache_dir, sizes), known)
                _save(path, known)
            return known
    except OSError as error:
        raise MachineError(f"cannot keep the measured peaks in {cache_dir}: {error}") from error


def _working_sets(cached: Caches, available: int | None) -> tuple[int, ...]:
    """Return the sizes (bytes) to measure: inside each private level, then doubling up to the largest."""
    largest = min(_LARGEST, (available or _LARGEST * 4) // 4)
    inside = [cached.l1 * 3 // 4, cached.l2 // 4, cached.l2 * 3 // 4]
    beyond = [_LARGEST >> shift for shift in range(7) if _LARGEST >> shift > cached.l2]
    return tuple(sorted({size for size in [*inside, *beyond] if size <= largest}))


def _key(sizes: Sequence[int]) -> str:
    return content_hash(processor_model(), str(n_threads()), *map(str, sizes), _probe_source(), *_FLAGS)


@cache
def _probe_source() -> str:
    return Path(__file__).with_name("peaks.cpp").read_text(encoding="utf-8")


def _load(path: Path) -> Peaks | None:
    """Return the cached peaks, None when there are none or the file is damaged."""
    try:
        return Peaks.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def _save(path: Path, peaks: Peaks) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(peaks.model_dump_json(indent=1), encoding="utf-8")
    os.replace(partial, path)


def _measure(cache_dir: Path, sizes: Sequence[int]) -> Peaks:
    built = compile_library(_probe_source(), _FLAGS, cache_dir)
    if isinstance(built, CompileFailure):
        raise MachineError(f"the compiler cannot build the peak probe: {built.log.splitlines()[0]}")
    rounds = _parse(_run_probe(built.path, sizes))
    bandwidth = {size: max(found.bandwidth[size] for found in rounds) for size in sizes}
    l2 = caches().l2
    in_cache = [size for size in sizes if size >= l2 // 2]
    today = datetime.date.today()
    return Peaks(
        device=processor_model(),
        n_threads=n_threads(),
        bandwidth_gbps=bandwidth[max(sizes)],
        cache_bandwidth_gbps=max(bandwidth[size] for size in in_cache),
        cache_bytes=l2,
        fma_gflops=max(found.fma for found in rounds),
        source=f"measured {today.isoformat()}",
        measured_on=today,
        spread=PeakSpread(
            bandwidth_gbps=_spread(found.bandwidth[max(sizes)] for found in rounds),
            cache_bandwidth_gbps=_spread(max(found.bandwidth[size] for size in in_cache) for found in rounds),
            fma_gflops=_spread(found.fma for found in rounds),
        ),
        curve=tuple(BandwidthPoint(working_set=size, gbps=bandwidth[size]) for size in sorted(bandwidth)),
    )


def _run_probe(library: Path, sizes: Sequence[int]) -> str:
    """Run the probe in a process of its own: OpenMP used here would break later forks."""
    command = [sys.executable, "-I", "-S", "-c", _PROBE, str(library), str(n_threads()), *map(str, sizes)]
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
    """Say in one line why a probe failed: where its library may not be run, that; else its last words."""
    if os.statvfs(library.parent).f_flag & os.ST_NOEXEC:
        return f"{library.parent} is mounted noexec; put the cache where code may run (KERNELWRIGHT_CACHE)"
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"it ended with code {done.returncode}"


@dataclass
class _Round:
    """The probe's figures of one moment: GFLOP/s, and GB/s of the best kernel per working-set size."""

    fma: float
    bandwidth: dict[int, float] = field(default_factory=dict)


def _parse(output: str) -> list[_Round]:
    """Return what each round of the probe measured; a round begins with its line ``fma``."""
    rounds: list[_Round] = []
    for name, size, rate in (line.split() for line in output.splitlines()):
        if name == "fma":
            rounds.append(_Round(float(rate) / 1e9))
        else:
            known = rounds[-1].bandwidth
            known[int(size)] = max(known.get(int(size), 0.0), float(rate) / 1e9)
    return rounds


def _spread(figures: Iterable[float]) -> Spread:
    found = list(figures)
    return Spread(low=min(found), median=statistics.median(found), high=max(found), repeats=len(found))


def _better(new: Peaks, old: Peaks | None) -> Peaks:
    """Return the higher figure of each pair, with date and spread of the new ones.

    Load only ever lowers what a machine seems to reach.
    """
    if old is None:
        return new
    curve = tuple(
        BandwidthPoint(working_set=a.working_set, gbps=max(a.gbps, b.gbps))
        for a, b in zip(new.curve, old.curve, strict=True)
    )
    return new.model_copy(
        update={
            "bandwidth_gbps": max(new.bandwidth_gbps, old.bandwidth_gbps),
            "cache_bandwidth_gbps": max(new.cache_bandwidth_gbps, old.cache_bandwidth_gbps),
            "fma_gflops": max(new.fma_gflops, old.fma_gflops),
            "curve": curve,
        }
    )
