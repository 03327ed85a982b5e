"""Builds a candidate's CUDA C++ before any of its code runs: its launchers, one library without torch.

The parent builds a candidate whose kernels are a module-level string literal ``CUDA_SOURCE`` with
``LAUNCHES`` beside it (docs/cuda.md). The candidate then loads ``$KERNELWRIGHT_BUILD_CACHE/KEY.so``. A
candidate that uses ``load_inline`` builds when it is imported, whatever name its sources have.
"""

from pathlib import Path

from kernelwright.core.errors import MachineError
from kernelwright.machine.compiler import RunCompiler
from kernelwright.referee.session.build import BuildResult
from kernelwright.targets.cuda.nvcc.build import compile_cubin
from kernelwright.targets.cuda.nvcc.form import checked_text
from kernelwright.targets.cuda.nvcc.launcher import build_launcher
from kernelwright.targets.cuda.nvcc.load_inline import read_load_inline
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt, Product
from kernelwright.targets.cuda.nvcc.read import read_cuda_source


def build_cuda(
    source: str, architecture: str, cache_dir: Path, timeout_s: float, run: RunCompiler | None = None
) -> BuildResult:
    """Compile the candidate's launchers for an architecture unless they have been compiled.

    The kernels are compiled alone first, with assertions that their parameters match the arguments of their
    launches: otherwise a kernel would read arbitrary memory. ``run`` runs the compiler in a sandbox.

    Raises:
        MachineError: there is no working nvcc, or the cache folder cannot be written.
    """
    form = read_cuda_source(source)
    if form is None:
        return BuildResult()
    if isinstance(form, NotBuilt):
        return BuildResult() if read_load_inline(source) is not None else _result(form)
    checked = compile_cubin(
        checked_text(form), architecture, cache_dir, flags=form.flags, timeout_s=timeout_s, run=run
    )
    if isinstance(checked, NotBuilt):
        return _result(checked)
    return _result(build_launcher(form, architecture, cache_dir, timeout_s=timeout_s, run=run))


def _result(built: Product | NotBuilt) -> BuildResult:
    if isinstance(built, Product):
        return BuildResult(log=built.log, library=built.path)
    if built.status in (BuildStatus.NO_COMPILER, BuildStatus.NEEDS_HEADERS):
        raise MachineError(f"CUDA C++ cannot be built here: {built.message}")
    return BuildResult(error=built.message, log=built.log, is_late=built.status is BuildStatus.TIMED_OUT)
