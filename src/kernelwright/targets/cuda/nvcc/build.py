"""Builds CUDA C++ to machine code and to launchers, cached by content; a refused source is data."""

import re
from dataclasses import replace
from pathlib import Path

from kernelwright.core.errors import UserError
from kernelwright.machine.compiler import RunCompiler, run_here
from kernelwright.targets.cuda.nvcc.cached import BuildWork, build_cached
from kernelwright.targets.cuda.nvcc.find import Absent, CudaCompiler, find_cuda_compiler
from kernelwright.targets.cuda.nvcc.form import DEFAULT_FLAGS
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt, Product
from kernelwright.targets.gpu.aot.ptxas import parse_ptxas
from kernelwright.targets.gpu.aot.resources import KernelResources

_ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")
_UNKNOWN_TO_COMPILER = re.compile(r"Unsupported gpu architecture|invalid value for --gpu-architecture")
_INSTALLED_BY_HALVES = re.compile(
    r"Failed to preprocess host compiler|<command-line>: fatal error: \S+: No such file"
    r"|unsupported GNU version|cannot find -lcuda|\bsh: (?:line )?(?:\d+: )?\S+: (?:command )?not found"
)
_NO_SUCH_HEADER = re.compile(
    r'^\S+\(\d+\): (?:catastrophic )?error: could not open source file "([^"\n]+)"', re.MULTILINE
)
_EMPTY_KERNEL = "__global__ void kernelwright_probe() {}\n"
TIMEOUT_S = 120.0


def compile_cubin(
    text: str,
    architecture: str,
    cache_dir: Path,
    *,
    flags: tuple[str, ...] = DEFAULT_FLAGS,
    timeout_s: float = TIMEOUT_S,
    run: RunCompiler | None = None,
    compiler: CudaCompiler | None = None,
) -> Product | NotBuilt:
    """Compile the kernels of a source for one architecture (``sm_90``, ``sm_90a``); no device is needed.

    The result lies in a folder of its own, ``cache_dir/COMPILER/KEY``; the key is over text, flags and
    architecture.
    ``run`` confines the compiler, as for ``compile_library``; without it the compiler is a plain child, with
    a time limit and little else between the source and this user's files. ``flags`` must be of
    ``ALLOWED_FLAG``; that is the caller's to have checked. NVRTC finds no header at all: a source that
    includes one needs headers, and is not refused.

    Raises:
        MachineError: the cache folder cannot be written.
        UserError: not an architecture of NVIDIA.
    """
    _check(architecture)
    found = compiler or find_cuda_compiler()
    if isinstance(found, Absent):
        return NotBuilt(BuildStatus.NO_COMPILER, found.reason)
    target = [f"-arch={architecture}"]
    if found.kind == "nvcc":
        target += ["-cubin", "-Xptxas", "-v", "-x", "cu"]
    return _build(text, architecture, cache_dir, flags, ".cubin", target, found, timeout_s, run)


def compile_shared(
    text: str,
    architecture: str,
    cache_dir: Path,
    *,
    flags: tuple[str, ...] = DEFAULT_FLAGS,
    timeout_s: float = TIMEOUT_S,
    run: RunCompiler | None = None,
    compiler: CudaCompiler | None = None,
) -> Product | NotBuilt:
    """Compile a whole source, host code too, to ``KEY.so`` with CUDA's runtime inside; else as compile_cubin.

    It loads where there is no driver; launching answers with an error code there. NVRTC cannot do this.
    """
    _check(architecture)
    found = compiler or find_cuda_compiler()
    if isinstance(found, Absent):
        return NotBuilt(BuildStatus.NO_COMPILER, found.reason)
    if found.kind == "nvrtc":
        words = "NVRTC compiles kernels only; a launcher needs nvcc (install the CUDA toolkit)"
        return NotBuilt(BuildStatus.NO_COMPILER, words)
    digits = architecture.removeprefix("sm_")
    target = ["-shared", "-Xcompiler", "-fPIC", "-gencode", f"arch=compute_{digits},code=sm_{digits}"]
    target += ["-Xptxas", "-v", "-x", "cu"]
    beside = found.path.parent.parent / "lib"  # where the wheels have it; nvcc itself looks in lib64
    if (beside / "libcudart_static.a").exists():
        target.append(f"-L{beside}")
    return _build(text, architecture, cache_dir, flags, ".so", target, found, timeout_s, run)


def kernel_resources(product: Product) -> dict[str, KernelResources]:
    """Return registers, spills and shared memory by kernel, as ptxas reported them; names as linked.

    Words that a source makes the front end say stand before those of ptxas, and the last entry counts.
    """
    return parse_ptxas(product.log)


def _check(architecture: str) -> None:
    if not _ARCHITECTURE.fullmatch(architecture):
        raise UserError(f"{architecture!r} is no architecture of NVIDIA; they are written like sm_90")


def _build(
    text: str,
    architecture: str,
    cache_dir: Path,
    flags: tuple[str, ...],
    suffix: str,
    target: list[str],
    compiler: CudaCompiler,
    timeout_s: float,
    run: RunCompiler | None,
) -> Product | NotBuilt:
    def command(flags: tuple[str, ...]) -> list[str]:
        return [*compiler.command, *flags, *target, "kernel.cpp", "-o", "kernel.so"]

    work = BuildWork(
        text=text,
        key=(*flags, architecture),
        suffix=suffix,
        command=command(flags),
        compiler=compiler.name,
        cache_dir=cache_dir,
        timeout_s=timeout_s,
        run=run or run_here,
    )
    built = build_cached(work)
    missing = _NO_SUCH_HEADER.search(built.log) if compiler.kind == "nvrtc" else None
    if isinstance(built, NotBuilt) and missing:
        words = f"{compiler.name} comes without headers, of the toolkit and of C++: {missing[1]}"
        return NotBuilt(BuildStatus.NEEDS_HEADERS, words, built.log)
    if isinstance(built, Product) or not _is_the_compilers(built.log):
        return built
    probe = replace(
        work, text=_EMPTY_KERNEL, key=(*DEFAULT_FLAGS, architecture), command=command(DEFAULT_FLAGS)
    )
    return _without_compiler(build_cached(probe), compiler, architecture) or built


def _is_the_compilers(log: str) -> bool:
    """True where a log speaks as of a compiler that cannot work; a source can make it say the same."""
    return bool(_UNKNOWN_TO_COMPILER.search(log) or _INSTALLED_BY_HALVES.search(log))


def _without_compiler(
    probe: Product | NotBuilt, compiler: CudaCompiler, architecture: str
) -> NotBuilt | None:
    """Return what an empty kernel shows to be wrong with the compiler; None: the source is wrong."""
    if isinstance(probe, Product) or not _is_the_compilers(probe.log):
        return None
    words = f"{compiler.name} ({compiler.path}) does not work here: {probe.message}"
    if _UNKNOWN_TO_COMPILER.search(probe.log):
        words = f"{compiler.name} does not compile for {architecture}"
    return NotBuilt(BuildStatus.NO_COMPILER, words, probe.log)
