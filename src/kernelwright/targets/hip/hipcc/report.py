"""What is known of a HIP candidate before it has seen a device."""

import re
from pathlib import Path

from kernelwright.core.errors import UserError
from kernelwright.machine.compiler import RunCompiler, run_here
from kernelwright.targets.cuda.nvcc.build import TIMEOUT_S
from kernelwright.targets.cuda.nvcc.cached import BuildWork, build_cached
from kernelwright.targets.cuda.nvcc.find import Absent
from kernelwright.targets.cuda.nvcc.form import CudaSource, Launch, checked_text
from kernelwright.targets.cuda.nvcc.outcome import AheadReport, BuildStatus, LaunchFacts, NotBuilt, Product
from kernelwright.targets.cuda.nvcc.read import read_cuda_source
from kernelwright.targets.gpu.aot.amdgcn import parse_amd_metadata, parse_amdgcn
from kernelwright.targets.gpu.aot.mix import mix_facts
from kernelwright.targets.gpu.aot.resources import resource_facts
from kernelwright.targets.gpu.limits import GpuArchitecture, find_architecture
from kernelwright.targets.hip.hipcc.find import HipCompiler, find_hip_compiler

SHIM = Path(__file__).with_name("shim.h")
_HIP_HEADER = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]hip/[\w./]+[>\"][^\n]*$", re.MULTILINE)
_FLAG = re.compile(r"-O[0-3]|-std=c\+\+(17|20)|-D\w+(=[\w.+-]*)?|-ffast-math|-w")
_NOT_IN_SHIM = re.compile(r"use of undeclared identifier|unknown type name|file not found|no member named")
_UNKNOWN_TO_COMPILER = re.compile(r"invalid target ID|unsupported HIP gpu architecture")


def read_hip_source(candidate: str) -> CudaSource | NotBuilt | None:
    """Return the kernels of ``HIP_SOURCE`` with ``HIPCC_FLAGS`` and ``LAUNCHES``; as ``read_cuda_source``."""
    return read_cuda_source(candidate, "HIP_SOURCE", "HIPCC_FLAGS")


def report_hip_candidate(
    candidate: str,
    architecture: str,
    cache_dir: Path,
    *,
    timeout_s: float = TIMEOUT_S,
    run: RunCompiler | None = None,
) -> AheadReport | None:
    """Compile the HIP of a candidate for an architecture; None when it has none. Raises as ``report_hip``."""
    found = read_hip_source(candidate)
    if isinstance(found, NotBuilt):
        return AheadReport(status=found.status, message=found.message, architecture=architecture)
    if found is None:
        return None
    return report_hip(found, architecture, cache_dir, timeout_s=timeout_s, run=run)


def report_hip(
    form: CudaSource,
    architecture: str,
    cache_dir: Path,
    *,
    timeout_s: float = TIMEOUT_S,
    run: RunCompiler | None = None,
    compiler: HipCompiler | None = None,
) -> AheadReport:
    """Compile a candidate's kernels to assembly and say what each launch needs and fills.

    Without ROCm kernels are compiled against ``shim.h``; a name that is not in there says nothing of the
    candidate (``needs_headers``). No launcher is built. Raises as ``report_cuda``.
    """
    limits = find_architecture(architecture)
    if limits.vendor != "amd":
        raise UserError(f"{architecture} is no architecture of AMD; known: gfx942, gfx950")
    found = compiler or find_hip_compiler()
    if isinstance(found, Absent):
        return AheadReport(status=BuildStatus.NO_COMPILER, message=found.reason, architecture=architecture)
    built = _assembly(form, architecture, cache_dir, found, timeout_s, run or run_here)
    if isinstance(built, NotBuilt):
        return AheadReport(
            status=built.status,
            message=built.message,
            log=built.log,
            architecture=architecture,
            compiler=found.name,
        )
    return _report(form, limits, architecture, built)


def _assembly(
    form: CudaSource,
    architecture: str,
    cache_dir: Path,
    compiler: HipCompiler,
    timeout_s: float,
    run: RunCompiler,
) -> Product | NotBuilt:
    flags = tuple(flag for flag in form.flags if _FLAG.fullmatch(flag))
    command = [str(compiler.path), *flags, "-x", "hip", f"--offload-arch={architecture}", "-S"]
    command += ["--cuda-device-only", "-o", "kernel.so", "kernel.cpp"]
    text = checked_text(form)
    if compiler.kind == "clang":
        command += ["-nogpulib", "-nogpuinc", "-Wno-unused-command-line-argument"]
        text = SHIM.read_text(encoding="utf-8").replace("#pragma once\n", "") + _HIP_HEADER.sub("", text)
    work = BuildWork(
        text=text,
        key=(*flags, architecture),
        suffix=".s",
        command=command,
        compiler=compiler.name,
        cache_dir=cache_dir,
        timeout_s=timeout_s,
        run=run,
    )
    built = build_cached(work)
    if not isinstance(built, NotBuilt) or built.status is not BuildStatus.REFUSED:
        return built
    if _UNKNOWN_TO_COMPILER.search(built.log):
        words = f"{compiler.name} does not compile for {architecture}"
        return NotBuilt(BuildStatus.NO_COMPILER, words, built.log)
    if compiler.kind == "clang" and _NOT_IN_SHIM.search(built.message):
        words = f"not known without ROCm's headers: {built.message}"
        return NotBuilt(BuildStatus.NEEDS_HEADERS, words, built.log)
    return built


def _report(form: CudaSource, limits: GpuArchitecture, architecture: str, built: Product) -> AheadReport:
    text = built.path.read_text(encoding="utf-8", errors="replace")
    resources, mixes = parse_amd_metadata(text), parse_amdgcn(text)
    missing = sorted({launch.kernel for launch in form.launches} - resources.keys())
    if missing:
        there = ", ".join(sorted(resources)) or "none"
        words = f'no kernel {", ".join(missing)} declared extern "C" __global__; compiled were: {there}'
        return AheadReport(status=BuildStatus.NOT_THE_FORM, message=words, architecture=architecture)

    def facts(launch: Launch) -> LaunchFacts:
        needs = resource_facts(
            resources[launch.kernel],
            limits,
            block_threads=launch.block_threads,
            dynamic_shared_bytes=launch.shared_bytes,
        )
        mix = mix_facts(mixes[launch.kernel]) if launch.kernel in mixes else {}
        return LaunchFacts(launch=launch.name, kernel=launch.kernel, grid=launch.grid, facts=needs | mix)

    return AheadReport(
        status=BuildStatus.BUILT,
        architecture=architecture,
        compiler=built.compiler,
        launches=tuple(facts(launch) for launch in form.launches),
    )
