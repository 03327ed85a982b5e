"""Runs a compiler once for what it is given: content names the result, a refusal is data."""

import os
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core.errors import MachineError
from kernelwright.machine.compiler import RunCompiler, library_key, loader_name
from kernelwright.targets.cuda.nvcc.includes import refused_reads
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt, Product

_CHATTER = re.compile(r"^ptxas info    : (?:Compile time|\d+ bytes gmem).*\n", re.MULTILINE)
LOG_CHARS = 4000


@dataclass(frozen=True)
class BuildWork:
    """A source and what is to become of it."""

    text: str
    key: tuple[str, ...]
    """What decides the result besides the text and the compiler: flags, architecture."""
    suffix: str
    command: Sequence[str]
    """Reads ``kernel.cpp``, writes ``kernel.so``, whatever is in them: the names a RunCompiler carries."""
    compiler: str
    """Name and version; results of different compilers lie in folders of this name."""
    cache_dir: Path
    timeout_s: float
    run: RunCompiler


def build_cached(work: BuildWork) -> Product | NotBuilt:
    """Return ``cache_dir/COMPILER/KEY/NAME.suffix``, built when it is not there; its log lies beside.

    ``NAME`` is what the candidate's loader asks for (``machine.compiler.loader_name``).

    Any number of processes may build the same: each builds apart and renames the result into place, last.
    A source that would read files is not given to the compiler.

    Raises:
        MachineError: the cache folder cannot be written.
    """
    started = time.perf_counter()
    refused = refused_reads(work.text)
    if refused:
        return NotBuilt(BuildStatus.NOT_ALLOWED, refused)
    folder = work.cache_dir / work.compiler / library_key(work.text, work.key)
    result = folder / (loader_name(work.text, work.key) + work.suffix)
    log = result.with_suffix(work.suffix + ".log")
    cached = result.exists()
    if not cached:
        failure = _compile(work, result, log)
        if failure is not None:
            return failure
    words = log.read_text(encoding="utf-8") if log.exists() else ""
    return Product(result, words, work.compiler, time.perf_counter() - started, cached)


def _compile(work: BuildWork, result: Path, log: Path) -> NotBuilt | None:
    try:
        result.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix="build-", dir=result.parent, ignore_cleanup_errors=True
        ) as name:
            folder = Path(name)
            (folder / "kernel.cpp").write_text(work.text, encoding="utf-8")
            ran = work.run(work.command, folder, work.timeout_s)
            words = _CHATTER.sub("", ran.messages).strip()
            made = folder / "kernel.so"
            if ran.exit_code is None:
                late = f"the compiler ran past {work.timeout_s:g} s and was killed"
                return NotBuilt(BuildStatus.TIMED_OUT, late)
            if ran.exit_code != 0 or not made.exists():
                return NotBuilt(BuildStatus.REFUSED, first_error(words, ran.exit_code), words[:LOG_CHARS])
            (folder / "log").write_text(words + "\n", encoding="utf-8")
            os.replace(folder / "log", log)
            os.replace(made, result)
    except OSError as error:
        raise MachineError(
            f"cannot build in {work.cache_dir}: {error}; choose a writable cache folder"
        ) from error
    return None


def first_error(log: str, code: int) -> str:
    """Return the line that says what is wrong, the last one when none does so."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = next((line for line in lines if "error" in line or "fatal" in line), None)
    return said or (lines[-1] if lines else f"the compiler ended with {code}")
