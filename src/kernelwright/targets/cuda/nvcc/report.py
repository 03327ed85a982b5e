"""What is known of a CUDA candidate before it has seen a device."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from kernelwright.core.evidence import FactValue
from kernelwright.machine.compiler import RunCompiler
from kernelwright.targets.cuda.nvcc.build import TIMEOUT_S, compile_cubin, kernel_resources
from kernelwright.targets.cuda.nvcc.find import CudaCompiler, find_cuobjdump
from kernelwright.targets.cuda.nvcc.form import CudaSource, Launch, checked_text
from kernelwright.targets.cuda.nvcc.outcome import AheadReport, BuildStatus, LaunchFacts, NotBuilt, Product
from kernelwright.targets.gpu.aot.mix import InstructionMix, mix_facts
from kernelwright.targets.gpu.aot.resources import KernelResources, resource_facts
from kernelwright.targets.gpu.aot.sass import parse_sass
from kernelwright.targets.gpu.limits import find_architecture

_DISASSEMBLY_S = 60.0


def report_cuda(
    form: CudaSource,
    architecture: str,
    cache_dir: Path,
    *,
    timeout_s: float = TIMEOUT_S,
    run: RunCompiler | None = None,
    compiler: CudaCompiler | None = None,
) -> AheadReport:
    """Compile a candidate's kernels for an architecture and say what each launch needs and fills.

    Raises:
        MachineError: the cache folder cannot be written.
        UserError: an architecture whose limits are not known.
    """
    limits = find_architecture(architecture)
    built = compile_cubin(
        checked_text(form),
        architecture,
        cache_dir,
        flags=form.flags,
        timeout_s=timeout_s,
        run=run,
        compiler=compiler,
    )
    if isinstance(built, NotBuilt):
        return AheadReport(
            status=built.status, message=built.message, log=built.log, architecture=architecture
        )
    resources = kernel_resources(built)
    missing = sorted({launch.kernel for launch in form.launches} - resources.keys())
    if missing:
        return AheadReport(
            status=BuildStatus.NOT_THE_FORM,
            message=_not_there(missing, resources),
            architecture=architecture,
            compiler=built.compiler,
        )
    mixes = instruction_mixes(built)

    def facts(launch: Launch) -> dict[str, FactValue]:
        found = resource_facts(
            resources[launch.kernel],
            limits,
            block_threads=launch.block_threads,
            dynamic_shared_bytes=launch.shared_bytes,
        )
        return found | (mix_facts(mixes[launch.kernel]) if launch.kernel in mixes else {})

    launches = [
        LaunchFacts(launch=one.name, kernel=one.kernel, grid=one.grid, facts=facts(one))
        for one in form.launches
    ]
    return AheadReport(
        status=BuildStatus.BUILT,
        architecture=architecture,
        compiler=built.compiler,
        launches=tuple(launches),
    )


def _not_there(missing: list[str], resources: Mapping[str, KernelResources]) -> str:
    there = ", ".join(sorted(resources)) or "none"
    return f'no kernel {", ".join(missing)} declared extern "C" __global__; compiled were: {there}'


def instruction_mixes(built: Product) -> dict[str, InstructionMix]:
    """Return the instruction mix by kernel of a cubin; empty where no disassembler reads it."""
    tool = find_cuobjdump()
    if tool is None:
        return {}
    command = [str(tool), "-sass", str(built.path)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_DISASSEMBLY_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse_sass(done.stdout) if done.returncode == 0 else {}
