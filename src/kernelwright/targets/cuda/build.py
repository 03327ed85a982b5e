"""Builds a candidate's CUDA C++ before any of its code runs: its launchers, one library without torch.

A candidate whose kernels are a module-level string literal ``CUDA_SOURCE`` with ``LAUNCHES`` beside it
(docs/cuda.md) is built by the referee's parent process, which runs the compiler confined. The candidate then
loads ``$KERNELWRIGHT_BUILD_CACHE/KEY.so``. What ``load_inline`` builds, it builds when it is imported,
whatever name its sources have.
"""

from kernelwright.core.errors import MachineError
from kernelwright.targets.base import BuildResult, BuildSite
from kernelwright.targets.cuda.nvcc.build import compile_cubin
from kernelwright.targets.cuda.nvcc.form import checked_text
from kernelwright.targets.cuda.nvcc.launcher import build_launcher, launcher_architecture
from kernelwright.targets.cuda.nvcc.load_inline import read_load_inline
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt, Product
from kernelwright.targets.cuda.nvcc.read import read_cuda_source


def build_cuda(source: str, site: BuildSite) -> BuildResult | None:
    """Compile the candidate's launchers for the device's architecture unless they have been compiled.

    First the kernels alone, with assertions that they take what their launches give them: a launch that
    gives a kernel something else would read whatever lies there. Nothing is built where the device has no
    architecture (see ``targets.base.Build``).

    Raises:
        MachineError: there is no working nvcc, or the cache folder cannot be written.
    """
    form = read_cuda_source(source) if site.architecture else None
    if form is None or site.architecture is None:
        return None
    architecture = launcher_architecture(site.architecture)
    if isinstance(form, NotBuilt):
        return None if read_load_inline(source) is not None else _result(form)
    checked = compile_cubin(
        checked_text(form), architecture, site.cache_dir,
        flags=form.flags, timeout_s=site.timeout_s, run=site.run,
    )  # fmt: skip
    if isinstance(checked, NotBuilt):
        return _result(checked)
    return _result(build_launcher(form, architecture, site.cache_dir, timeout_s=site.timeout_s, run=site.run))


def _result(built: Product | NotBuilt) -> BuildResult:
    if isinstance(built, Product):
        return BuildResult(log=built.log, library=built.path)
    if built.status in (BuildStatus.NO_COMPILER, BuildStatus.NEEDS_HEADERS):
        raise MachineError(f"CUDA C++ cannot be built here: {built.message}")
    return BuildResult(error=built.message, log=built.log, is_late=built.status is BuildStatus.TIMED_OUT)
