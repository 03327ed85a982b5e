"""The launcher of a CUDA candidate: a shared library without torch, a C function for each launch."""

from pathlib import Path

from kernelwright.devices.compiler import RunCompiler
from kernelwright.devices.nvcc.build import TIMEOUT_S, compile_shared
from kernelwright.devices.nvcc.find import CudaCompiler
from kernelwright.devices.nvcc.form import CudaSource, launcher_text
from kernelwright.devices.nvcc.outcome import NotBuilt, Product


def build_launcher(
    form: CudaSource,
    architecture: str,
    cache_dir: Path,
    *,
    timeout_s: float = TIMEOUT_S,
    run: RunCompiler | None = None,
    compiler: CudaCompiler | None = None,
) -> Product | NotBuilt:
    """Build the candidate's launcher; ``int launch_NAME(stream, arguments...)``, 0 when it was accepted.

    A candidate finds it again with ``KERNELWRIGHT_BUILD_CACHE`` set to the folder of the result
    (kernels/cuda/runtime_source.py). ``report_cuda`` comes first: it checks what the launches give the
    kernels. Errors as ``compile_cubin``.
    """
    return compile_shared(
        launcher_text(form),
        architecture,
        cache_dir,
        flags=form.flags,
        timeout_s=timeout_s,
        run=run,
        compiler=compiler,
    )
