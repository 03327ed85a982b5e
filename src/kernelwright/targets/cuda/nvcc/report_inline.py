"""What is known of a ``load_inline`` candidate before it has seen a device; and of either form."""

import re
from pathlib import Path

from kernelwright.core.evidence import FactValue
from kernelwright.machine.compiler import RunCompiler
from kernelwright.targets.cuda.nvcc.build import TIMEOUT_S, compile_cubin, kernel_resources
from kernelwright.targets.cuda.nvcc.find import CudaCompiler
from kernelwright.targets.cuda.nvcc.form import CudaSource
from kernelwright.targets.cuda.nvcc.host_launches import HostLaunch
from kernelwright.targets.cuda.nvcc.load_inline import InlineCuda, read_load_inline
from kernelwright.targets.cuda.nvcc.outcome import AheadReport, BuildStatus, LaunchFacts, NotBuilt
from kernelwright.targets.cuda.nvcc.read import read_cuda_source
from kernelwright.targets.cuda.nvcc.report import instruction_mixes, report_cuda
from kernelwright.targets.gpu.aot.mix import mix_facts
from kernelwright.targets.gpu.aot.resources import KernelResources, resource_facts
from kernelwright.targets.gpu.limits import GpuArchitecture, find_architecture

_MANGLED = re.compile(r"_ZL?(?:N[KVr]*)?L?(?P<rest>\d.*)")


def read_cuda(candidate: str) -> CudaSource | InlineCuda | NotBuilt | None:
    """Return the CUDA of a candidate of either form, None when it has none.

    A ``CUDA_SOURCE`` that is not our form, in a candidate that calls ``load_inline``, is the latter's.
    """
    ours = read_cuda_source(candidate)
    if isinstance(ours, CudaSource):
        return ours
    inline = read_load_inline(candidate)
    return inline if inline is not None else ours


def report_candidate(
    candidate: str,
    architecture: str,
    cache_dir: Path,
    *,
    timeout_s: float = TIMEOUT_S,
    run: RunCompiler | None = None,
    compiler: CudaCompiler | None = None,
) -> AheadReport | None:
    """Compile the CUDA of a candidate of either form for an architecture; None when it has none.

    Runs nothing of it. Raises as ``report_cuda``.
    """
    find_architecture(architecture)
    found = read_cuda(candidate)
    if found is None:
        return None
    if isinstance(found, NotBuilt):
        return AheadReport(status=found.status, message=found.message, architecture=architecture)
    if isinstance(found, InlineCuda):
        return report_inline(found, architecture, cache_dir, timeout_s=timeout_s, run=run, compiler=compiler)
    return report_cuda(found, architecture, cache_dir, timeout_s=timeout_s, run=run, compiler=compiler)


def report_inline(
    inline: InlineCuda,
    architecture: str,
    cache_dir: Path,
    *,
    timeout_s: float = TIMEOUT_S,
    run: RunCompiler | None = None,
    compiler: CudaCompiler | None = None,
) -> AheadReport:
    """Compile the kernels of a ``load_inline`` candidate; occupancy only where blocks are written in numbers.

    Where its flags name the architecture with a suffix (``sm_90a``), that is compiled for. The host code is
    not compiled: mistakes in it are not seen here.
    """
    limits = find_architecture(architecture)
    architecture = _named_by_flags(inline, architecture)
    built = compile_cubin(
        inline.text,
        architecture,
        cache_dir,
        flags=inline.flags,
        timeout_s=timeout_s,
        run=run,
        compiler=compiler,
    )
    if isinstance(built, NotBuilt):
        return _not_built(built, inline, architecture)
    mixes = instruction_mixes(built)
    launches = []
    for name, resources in kernel_resources(built).items():
        if base_name(name) not in inline.text:  # of a header
            continue
        of_kernel = [one for one in inline.launches if _base(one.kernel) == base_name(name)]
        facts = _facts(resources, limits, of_kernel)
        facts |= mix_facts(mixes[name]) if name in mixes else {}
        launches.append(LaunchFacts(launch=base_name(name), kernel=name, facts=facts))
    return AheadReport(
        status=BuildStatus.BUILT,
        architecture=architecture,
        compiler=built.compiler,
        launches=tuple(launches),
        notes=(*inline.notes, *_unknown(inline, {one.launch for one in launches})),
    )


def _named_by_flags(inline: InlineCuda, architecture: str) -> str:
    same = [one for one in inline.architectures if one.rstrip("af") == architecture.rstrip("af")]
    return max(same, key=len, default=architecture)


def _not_built(built: NotBuilt, inline: InlineCuda, architecture: str) -> AheadReport:
    status, message = built.status, built.message
    if status is BuildStatus.REFUSED and inline.needs_torch:
        status, message = (
            BuildStatus.NEEDS_HEADERS,
            f"device code uses {inline.needs_torch}, which needs torch's headers",
        )
    return AheadReport(
        status=status, message=message, log=built.log, architecture=architecture, notes=inline.notes
    )


def _facts(
    resources: KernelResources, limits: GpuArchitecture, launches: list[HostLaunch]
) -> dict[str, FactValue]:
    """Return the resources, with the occupancy where all launches of the kernel are alike and known."""
    threads = {launch.block_threads for launch in launches}
    shared = {launch.shared_bytes for launch in launches}
    if len(threads) == len(shared) == 1 and None not in threads | shared:
        block_threads, dynamic = threads.pop(), shared.pop()
        return resource_facts(
            resources, limits, block_threads=block_threads or 1, dynamic_shared_bytes=dynamic or 0
        )
    return {
        "aot.registers": resources.registers,
        "aot.spills": resources.spills,
        "aot.local_bytes": resources.local_bytes,
    }


def _unknown(inline: InlineCuda, compiled: set[str]) -> list[str]:
    notes = [] if compiled else ["no kernels of its own"]
    sizes: dict[str, set[tuple[int | None, int | None]]] = {}
    for launch in inline.launches:
        sizes.setdefault(_base(launch.kernel), set()).add((launch.block_threads, launch.shared_bytes))
        if _base(launch.kernel) not in compiled:
            notes.append(
                f"{launch.kernel}: launched, but not compiled; its template arguments are not written"
            )
        elif launch.block_threads is None or launch.shared_bytes is None:
            notes.append(f"{launch.kernel}: size of its blocks is computed at run time")
        elif len(sizes[_base(launch.kernel)]) > 1:
            notes.append(f"{launch.kernel}: launched with blocks of several sizes")
    return list(dict.fromkeys(notes))


def _base(kernel: str) -> str:
    return kernel.rpartition("::")[2]


def base_name(linked: str) -> str:
    """Return a function's own name out of the linker's, without namespaces, types and arguments."""
    match = _MANGLED.match(linked)
    if match is None:
        return linked
    rest, name = match["rest"], linked
    while found := re.match(r"\d{1,5}", rest):
        end = found.end() + int(found[0])
        name, rest = rest[found.end() : end], rest[end:]
    return name
