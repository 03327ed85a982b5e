"""What a run asks of the compilers before a candidate goes to a GPU: facts, or why it cannot run there."""

from kernelwright.core.errors import MachineError, UserError
from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.inspect.compiled import find_form, form_of, inspect_compiled
from kernelwright.targets.gpu.inspect.findings import TIMEOUT_S, AotCheck, Ways
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelOutcome,
    KernelReport,
)
from kernelwright.targets.gpu.inspect.meaning import outcome_words
from kernelwright.targets.gpu.inspect.run import inspect_candidate

__all__ = ["TIMEOUT_S", "AotCheck", "Ways", "ahead_of", "look_ahead"]


def look_ahead(source: str, gpu: GpuFacts, *, task_source: str, is_training: bool, ways: Ways) -> AotCheck:
    """Build a candidate's kernels for a GPU, which need not be here; never raises for what is missing.

    Without a compiler, or where the task has no inputs without values, nothing is known: the note says so,
    and the device decides.
    """
    form = form_of(source)
    try:
        how = find_form(form)
        if how is None and "triton" not in source:
            return AotCheck(note="nothing to build ahead of time: the source does not speak of Triton")
        if how is None:
            found = inspect_candidate(
                source,
                gpu,
                task_source=task_source,
                is_training=is_training,
                timeout_s=ways.timeout_s,
                start=ways.start,
            )
        elif ways.compiling is None:
            return AotCheck(
                note=f"not built ahead of time: kernels in the form {form} are not looked at here"
            )
        else:
            with ways.compiling() as compiler:
                found = inspect_compiled(
                    source, gpu, ways.cache_dir, form=form, timeout_s=ways.timeout_s,
                    architecture=how.architecture(gpu.architecture),
                    run=compiler.run, sandbox=compiler.sandbox,
                )  # fmt: skip
    except (MachineError, UserError) as error:
        return AotCheck(note=f"not built ahead of time: {error}")
    return ahead_of(found)


def ahead_of(found: Inspection) -> AotCheck:
    """Return what an inspection means for a candidate that is about to be paid for.

    Only what compilers and the limits of the GPU say ends it. A candidate whose ``forward`` could not be
    followed without values, or that launches no kernels, is the device's to judge; so is one whose
    ``load_inline`` was not built.
    """
    bad = [kernel for kernel in found.kernels if not kernel.is_trial and not kernel.outcome.can_run]
    problem = f"{_words(bad[0])} ({_place(found)})" if bad else ""
    if not problem and _ends_the_source(found):
        problem = f"not built for {_place(found)}: {found.detail}"
    return AotCheck(
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
    form = find_form(found.form)
    if form is not None and not form.is_whole:
        return False
    is_late = found.status is InspectionStatus.TIMEOUT and form is not None
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
