"""The launcher of a CUDA candidate: a shared library without torch, a C function for each launch."""

import re
from pathlib import Path

from kernelwright.machine.compiler import RunCompiler
from kernelwright.targets.cuda.nvcc.build import TIMEOUT_S, compile_shared
from kernelwright.targets.cuda.nvcc.find import CudaCompiler
from kernelwright.targets.cuda.nvcc.form import CudaSource, launcher_text
from kernelwright.targets.cuda.nvcc.outcome import NotBuilt, Product

_PLAIN = re.compile(r"sm_(\d+)")
_FIRST_WITH_ITS_OWN = 90


def launcher_architecture(architecture: str) -> str:
    """Return what launchers are compiled for on a device: ``sm_90a`` for ``sm_90``.

    From compute capability 9.0 on some instructions (``wgmma``) are only there under the name with the "a".
    A candidate's loader asks for the same (targets/cuda/runtime_source.py). Any other name stays as it is.
    """
    plain = _PLAIN.fullmatch(architecture)
    return f"{architecture}a" if plain and int(plain[1]) >= _FIRST_WITH_ITS_OWN else architecture


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
    (targets/cuda/runtime_source.py). ``report_cuda`` comes first: it checks what the launches give the
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
