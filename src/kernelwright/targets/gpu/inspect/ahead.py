"""What a run asks of the compilers before a candidate goes to a GPU: facts, or why it cannot run there."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import Field

from kernelwright.core.errors import MachineError, UserError
from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.machine.compiler import RunCompiler
from kernelwright.targets.cuda.nvcc.launcher import launcher_architecture
from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.inspect.compiled import form_of, inspect_compiled
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelForm,
    KernelOutcome,
    KernelReport,
)
from kernelwright.targets.gpu.inspect.meaning import outcome_words
from kernelwright.targets.gpu.inspect.run import Start, inspect_candidate

TIMEOUT_S = 180.0
"""As long as a candidate may take to load on a device, compilers included."""


class Ahead(Frozen):
    """What is known of a candidate before a device is used."""

    facts: dict[str, FactValue] = Field(default_factory=dict)
    """``aot.*`` and ``gpu.*``, for the diagnosis: those of the kernel that moves most."""
    by_kernel: dict[str, dict[str, FactValue]] = Field(default_factory=dict)
    """The same of each kernel's function, for when a profiler says which is the hottest."""
    problem: str = ""
    """Why it cannot be built or launched; empty where nothing speaks against it."""
    is_late: bool = False
    """The problem is that a compiler did not end in time."""
    note: str
    """One line for a reader: what was built for which GPU, or why nothing was looked at."""
    log: str = ""
    sandbox: str | None = None


class Compiling(Protocol):
    """A way to run compilers, and the name of its sandbox."""

    @property
    def run(self) -> RunCompiler: ...

    @property
    def sandbox(self) -> str: ...


@dataclass(frozen=True)
class Ways:
    """How what looks at candidates is started and where it keeps builds."""

    cache_dir: Path
    start: Start | None = None
    """See ``inspect_candidate``."""
    compiling: Callable[[], AbstractContextManager[Compiling]] | None = None
    """Opened for candidates in CUDA C++ or HIP C++; None: those are not looked at."""
    timeout_s: float = TIMEOUT_S


def look_ahead(source: str, gpu: GpuFacts, *, task_source: str, is_training: bool, ways: Ways) -> Ahead:
    """Build a candidate's kernels for a GPU, which need not be here; never raises for what is missing.

    Without a compiler, or where the task has no inputs without values, nothing is known: the note says so,
    and the device decides.
    """
    form = form_of(source)
    try:
        if form is KernelForm.TRITON:
            found = inspect_candidate(
                source,
                gpu,
                task_source=task_source,
                is_training=is_training,
                timeout_s=ways.timeout_s,
                start=ways.start,
            )
        elif ways.compiling is None:
            return Ahead(
                note=f"not built ahead of time: kernels in the form {form.value} are not looked at here"
            )
        else:
            is_ours = form is KernelForm.CUDA
            with ways.compiling() as compiler:
                found = inspect_compiled(
                    source, gpu, ways.cache_dir, form=form, timeout_s=ways.timeout_s,
                    architecture=launcher_architecture(gpu.architecture) if is_ours else None,
                    run=compiler.run, sandbox=compiler.sandbox,
                )  # fmt: skip
    except (MachineError, UserError) as error:
        return Ahead(note=f"not built ahead of time: {error}")
    return ahead_of(found)


def ahead_of(found: Inspection) -> Ahead:
    """Return what an inspection means for a candidate that is about to be paid for.

    Only what compilers and the limits of the GPU say ends it. A candidate whose ``forward`` could not be
    followed without values, or that launches no kernels, is the device's to judge; so is one whose
    ``load_inline`` was not built.
    """
    bad = [kernel for kernel in found.kernels if not kernel.is_trial and not kernel.outcome.can_run]
    problem = f"{_words(bad[0])} ({_place(found)})" if bad else ""
    if not problem and _ends_the_source(found):
        problem = f"not built for {_place(found)}: {found.detail}"
    return Ahead(
        facts=found.facts(),
        by_kernel={
            kernel.function or kernel.kernel: kernel.facts
            for kernel in found.kernels
            if kernel.facts and not kernel.is_trial
        },
        problem=problem,
        is_late=bool(problem) and found.status is InspectionStatus.TIMEOUT,
        note=_note(found, bad),
        log=found.log,
        sandbox=found.sandbox,
    )


def _ends_the_source(found: Inspection) -> bool:
    """True where a compiler had the whole source that a device would need, and refused it or did not end.

    What it had of ``load_inline`` is what a scanner took out of it, without torch's headers.
    """
    if found.form is KernelForm.LOAD_INLINE:
        return False
    is_late = found.status is InspectionStatus.TIMEOUT and found.form is not KernelForm.TRITON
    return is_late or found.status is InspectionStatus.NOT_BUILT


def _words(kernel: KernelReport) -> str:
    return f"{kernel.kernel}: {outcome_words(kernel.outcome)}: {kernel.detail}"


def _place(found: Inspection) -> str:
    return f"{found.architecture}, {found.device}"


def _note(found: Inspection, bad: list[KernelReport]) -> str:
    chosen = [kernel for kernel in found.kernels if not kernel.is_trial]
    if bad:
        return f"built ahead for {_place(found)}: {len(bad)} of {len(chosen)} kernels cannot run there"
    if found.status is InspectionStatus.INSPECTED:
        n_spill = sum(kernel.outcome is KernelOutcome.SPILLS for kernel in chosen)
        words = f", {n_spill} with spilled registers" if n_spill else ""
        plural = "s" if len(chosen) > 1 else ""
        return f"built ahead for {_place(found)}: {len(chosen)} kernel{plural} can be launched{words}"
    words = found.status.value.replace("_", " ")
    seen = f", after {len(chosen)} kernels that can be launched" if chosen else ""
    return f"not wholly built ahead for {_place(found)}: {words}: {found.detail}{seen}"
