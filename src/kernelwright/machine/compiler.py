"""Builds C++ source to a shared library and caches it by content."""

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

from kernelwright.core.errors import MachineError
from kernelwright.machine import topology
from kernelwright.machine.vector_report import condense, report_facts

__all__ = [
    "BuiltLibrary",
    "CompileFailure",
    "Compiler",
    "Ran",
    "RunCompiler",
    "compile_library",
    "find_compiler",
    "library_key",
    "loader_name",
    "name_for_loader",
    "report_facts",
]

KNOWN_COMPILERS = ("g++", "clang++")
"""Compilers to look for, in this order, when ``$CXX`` is not set."""

_INSTALL_ADVICE = "install one (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or set CXX"


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler that answered when asked for its version."""

    path: Path
    version: str
    """First line of ``--version``."""
    wrapper: tuple[str, ...] = ()
    """Words before the compiler in ``$CXX``, e.g. ``ccache``."""

    @property
    def command(self) -> tuple[str, ...]:
        """The beginning of a command line that runs the compiler."""
        return (*self.wrapper, str(self.path))

    @property
    def is_clang(self) -> bool:
        """True for clang, whose report options differ from GCC's."""
        return "clang" in self.version

    def report_flags(self, report: str) -> tuple[str, ...]:
        """Options that make it say which loops were vectorised; GCC writes to the file ``report``."""
        if self.is_clang:
            return ("-Rpass=loop-vectorize", "-Rpass-missed=loop-vectorize")
        return (f"-fopt-info-vec-optimized-missed={report}",)


@dataclass(frozen=True)
class BuiltLibrary:
    """A shared library that is ready to load; never overwritten in place."""

    path: Path
    log: str
    """Warnings, then the condensed vectorisation report."""
    seconds: float
    """Wall time of the build; that of the look-up when ``cached``."""
    cached: bool


@dataclass(frozen=True)
class CompileFailure:
    """The compiler refused the source, or exceeded its time limit."""

    log: str
    """The compiler's messages; positions refer to ``kernel.cpp``, the source as given."""
    timed_out: bool = False


@dataclass(frozen=True)
class Ran:
    """How a compiler run ended; ``exit_code`` None: it exceeded its time limit."""

    exit_code: int | None
    messages: str


RunCompiler: TypeAlias = Callable[[Sequence[str], Path, float], Ran]
"""Runs a command on ``kernel.cpp`` in a folder, with a limit in seconds; results stay in the folder."""


def find_compiler() -> Compiler:
    """Return ``$CXX`` when set, else g++, else clang++.

    Raises:
        MachineError: none is there, or ``$CXX`` does not answer ``--version``.
    """
    chosen = os.environ.get("CXX", "").strip()
    if chosen:
        return _probe(tuple(shlex.split(chosen)))
    for name in KNOWN_COMPILERS:
        if shutil.which(name):
            return _probe((name,))
    raise MachineError(f"no C++ compiler found (looked for {', '.join(KNOWN_COMPILERS)}): {_INSTALL_ADVICE}")


@cache
def _probe(words: tuple[str, ...]) -> Compiler:
    path = shutil.which(words[-1])
    if path is None:
        raise MachineError(f"the C++ compiler {words[-1]!r} named by CXX is not on PATH: {_INSTALL_ADVICE}")
    try:
        asked = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"the C++ compiler {path} does not run ({error}): {_INSTALL_ADVICE}") from error
    first_line = asked.stdout.partition("\n")[0].strip()
    return Compiler(path=Path(path), version=first_line, wrapper=words[:-1])


def library_key(source: str, flags: Sequence[str]) -> str:
    """Return the name, without suffix, under which the library of this source and flags is cached.

    Processor and compiler are part of it (``-march=native``), so machines may share a folder. Every part is
    preceded by its length: no end of a source can pass for a flag.
    """
    digest = hashlib.sha256()
    for part in (topology.features(), _compiler_word(), source, *flags):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def _compiler_word() -> str:
    try:
        return find_compiler().version
    except MachineError:
        return ""


def loader_name(source: str, flags: Sequence[str]) -> str:
    """Return the name, without suffix, by which a candidate's own loader looks for its library.

    Two different candidates may ask for the same name, so it names a library only inside a folder of its own.
    """
    return hashlib.sha256("\n".join([source, *flags]).encode()).hexdigest()[:32]


def name_for_loader(library: Path, source: str, flags: Sequence[str]) -> Path:
    """Return the cached library under the name that the candidate's loader asks for, alone in a folder.

    Raises:
        MachineError: the cache folder cannot be written.
    """
    named = library.with_suffix("") / (loader_name(source, flags) + library.suffix)
    try:
        if not named.exists():
            named.parent.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="link-", dir=named.parent) as folder:
                os.link(library, linked := Path(folder, named.name))
                os.replace(linked, named)
    except OSError as error:
        raise MachineError(
            f"cannot write to {library.parent}: {error}; choose a writable cache folder"
        ) from error
    return named


def compile_library(
    source: str,
    flags: tuple[str, ...],
    cache_dir: Path,
    timeout_s: float = 60.0,
    run: RunCompiler | None = None,
    *,
    is_reported: bool = True,
) -> BuiltLibrary | CompileFailure:
    """Build ``source`` (C++) to ``cache_dir/KEY.so`` unless it is there already.

    ``KEY.log`` and ``KEY.cpp`` are kept beside it. Any number of processes may build the same source
    at once: each builds apart and the results are renamed into place. ``flags`` holds what decides the
    code, e.g. ``-O3 -march=native -fopenmp``; ``-shared -fPIC`` and the report options are added.

    ``is_reported`` False leaves the vectorisation report out, also for whoever builds the same source there.

    ``run`` runs the compiler, by default as a plain child of this process; give another one for source
    that is not trusted.

    Raises:
        MachineError: no compiler, or the cache folder cannot be written.
    """
    started = time.perf_counter()
    key = library_key(source, flags)
    library = cache_dir / f"{key}.so"
    if library.exists():
        log = library.with_suffix(".log")
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        return BuiltLibrary(library, text, time.perf_counter() - started, cached=True)
    compiler = find_compiler()
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix="build-", dir=cache_dir, ignore_cleanup_errors=True
        ) as folder:
            work = Path(folder)
            (work / "kernel.cpp").write_text(source, encoding="utf-8")
            report = compiler.report_flags("report.txt") if is_reported else ()
            messages = _run_compiler(compiler, (*flags, *report), work, timeout_s, run or run_here)
            if isinstance(messages, CompileFailure):
                return messages
            log_text = condense(messages, source)
            _publish(work, log_text, library)
    except OSError as error:
        raise MachineError(f"cannot build in {cache_dir}: {error}; choose a writable cache folder") from error
    return BuiltLibrary(library, log_text, time.perf_counter() - started, cached=False)


def _run_compiler(
    compiler: Compiler, flags: Sequence[str], work: Path, timeout_s: float, run: RunCompiler
) -> str | CompileFailure:
    command = [*compiler.command, *flags]
    command += ["-shared", "-fPIC", "-x", "c++", "kernel.cpp", "-o", "kernel.so"]
    ran = run(command, work, timeout_s)
    if ran.exit_code is None:
        return CompileFailure(f"the compiler ran past {timeout_s:g} s and was killed", timed_out=True)
    messages = ran.messages
    if ran.exit_code != 0 or not (work / "kernel.so").exists():
        return CompileFailure(messages.strip() or f"the compiler ended with {ran.exit_code}")
    report = work / "report.txt"
    if report.exists():
        messages += report.read_text(encoding="utf-8", errors="replace")
    return messages


def run_here(command: Sequence[str], work: Path, timeout_s: float) -> Ran:
    """Run a compiler as a child of this process, with all rights of this process."""
    # TMPDIR: a killed compiler leaves its temporary files where they are cleaned up with the folder.
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(work)}
    process = subprocess.Popen(
        command,
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        messages, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return Ran(None, "")
    finally:
        _kill_group(process)
    return Ran(process.returncode, messages)


def _kill_group(process: subprocess.Popen[str]) -> None:
    """Kill the compiler driver and the passes it started, unless it has ended."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _publish(work: Path, log_text: str, library: Path) -> None:
    """Move the results into the cache, the library last: where it is, its log is too."""
    (work / "kernel.log").write_text(log_text, encoding="utf-8")
    for suffix in (".cpp", ".log", ".so"):
        os.replace(work / f"kernel{suffix}", library.with_suffix(suffix))
