"""Judges every specimen and says whether each ended as its header says."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError
from kernelwright.core.evaluation import Check, Status
from kernelwright.core.frozen import Frozen
from kernelwright.core.policy import Policy
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.corpus.leftovers import left_behind, take_traces
from kernelwright.corpus.load import honest_twin, load_corpus_task
from kernelwright.corpus.naive import NaiveVerdict
from kernelwright.corpus.specimen import NOT_FASTER, REFUSED, Kind, Specimen
from kernelwright.referee.device import parse_device
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.targets.device import PROCESSOR, DeviceKind
from kernelwright.targets.registry import device_kinds

NEEDS_DEVICE = "needs a device"
NEEDS_SANDBOX = "needs a stronger sandbox"
LISTED = "not judged"
STAYS = "for another kind of device"
SIZES: dict[str, dict[str, Literal_]] = {"matmul": {"N": 4096}}
"""Of tasks, on a GPU: a product of the task's own size takes no longer there than its launch does, and
nothing is won by not doing it."""

Floors = Callable[[Task], Mapping[str, Floor]]
OpenReferee = Callable[[Policy], Referee]


class SpecimenResult(Frozen):
    """How one specimen ended."""

    specimen: Specimen
    outcome: str
    """A status, another outcome of ``specimen.py``, or why it was not judged."""
    check: Check | None = None
    detail: str = ""
    speedup: float | None = None
    """Over eager, when it was verified."""
    seconds: float = 0.0
    naive: NaiveVerdict | None = None
    """What a harness that does not look says; None when it was not asked."""
    control: str = ""
    """How the task's honest twin ended afterwards; asked for after hostile programs only."""
    left: tuple[str, ...] = ()
    """Processes and files that were there after it and not before; looked for after hostile programs only."""

    @property
    def is_judged(self) -> bool:
        """False when it could not be run here."""
        return self.outcome not in (NEEDS_DEVICE, NEEDS_SANDBOX, LISTED, STAYS)

    @property
    def is_as_expected(self) -> bool:
        """True when it ended as its header says, left nothing, and honest code after it was verified."""
        if not self.is_judged:
            return True
        is_calm = self.control in ("", Status.VERIFIED) and not self.left
        return is_calm and self.specimen.is_as_expected(self.outcome, self.check, self.detail)


def first_gpu() -> DeviceKind:
    """Return the kind of device that specimens go to which the processor cannot judge."""
    return next(kind for kind in device_kinds() if kind.driver is not None)


def listed(specimens: Sequence[Specimen]) -> list[SpecimenResult]:
    """Return what an audit would judge, unjudged."""
    return [
        SpecimenResult(specimen=specimen, outcome=NEEDS_DEVICE if specimen.needs_device else LISTED)
        for specimen in specimens
    ]


def audit(
    specimens: Sequence[Specimen],
    open_referee: OpenReferee,
    floors: Floors,
    on_device: OpenReferee | None = None,
    *,
    device: str = PROCESSOR.name,
) -> Iterator[SpecimenResult]:
    """Judge specimen by specimen, those of one policy and task in one session.

    Args:
        specimens: What to judge.
        open_referee: How a referee is opened for a policy.
        floors: The processor's, of a task.
        on_device: How one is opened for those that need a GPU; None: there is none, and they are not judged.
        device: Another kind of device than the processor: all that can be is judged there, by
            ``on_device``, those first that can be nowhere else; the others are not judged.

    Raises:
        MachineError: no process, memory or compiler; never because of what a specimen does.
    """
    is_apart = parse_device(device).is_apart
    kind = device if is_apart else first_gpu().name
    is_here = {specimen.name: not (is_apart or specimen.needs_device) for specimen in specimens}
    yield from _audit_on([s for s in specimens if is_here[s.name]], open_referee, floors)
    others = [s for s in specimens if not is_here[s.name]]
    there = sorted((s for s in others if s.runs_on(kind)), key=lambda s: not parse_device(s.target).is_apart)
    if on_device is not None:
        yield from _audit_on([s.on_device() for s in there], on_device, lambda task: {})
    for specimen in others:
        if on_device is None or not specimen.runs_on(kind):
            yield SpecimenResult(specimen=specimen, outcome=NEEDS_DEVICE if specimen.needs_device else STAYS)


def _audit_on(
    specimens: Sequence[Specimen], open_referee: OpenReferee, floors: Floors
) -> Iterator[SpecimenResult]:
    groups: dict[tuple[str, str], list[Specimen]] = defaultdict(list)
    for specimen in specimens:
        groups[specimen.policy.model_dump_json(), specimen.task].append(specimen)
    for policy in dict.fromkeys(policy for policy, _ in groups):
        with open_referee(Policy.model_validate_json(policy)) as referee:
            sizes = SIZES if parse_device(referee.settings.device).has_driver else {}
            for (own, task), members in groups.items():
                if own == policy:
                    sized = with_sizes(load_corpus_task(task), sizes.get(task, {}))
                    yield from _audit_task(referee, sized, members, floors)


def with_sizes(task: Task, sizes: Mapping[str, Literal_]) -> Task:
    """Return the task with other values for its globals."""
    if not sizes:
        return task
    return task.model_copy(update={"workloads": (Workload(overrides=dict(sizes)),)})


def _audit_task(
    referee: Referee, task: Task, specimens: Sequence[Specimen], floors: Floors
) -> Iterator[SpecimenResult]:
    begin = time.perf_counter()
    try:
        session = referee.open(task)
    except TaskError as error:
        seconds = time.perf_counter() - begin
        for specimen in specimens:
            yield SpecimenResult(specimen=specimen, outcome=REFUSED, detail=str(error), seconds=seconds)
        return
    with session:
        known = floors(task)
        for specimen in specimens:
            wanted = specimen.sandbox
            if wanted is not None and wanted.strength > referee.tier.strength:
                why = f"the tier {wanted}, and this machine has {referee.tier}"
                yield SpecimenResult(specimen=specimen, outcome=NEEDS_SANDBOX, detail=why)
            else:
                yield judge_specimen(session, specimen, known)


def judge_specimen(
    session: RefereeSession, specimen: Specimen, floors: Mapping[str, Floor]
) -> SpecimenResult:
    """Judge one specimen in an open session of its task."""
    begin, scratch = time.perf_counter(), session.scratch_prefix
    before = take_traces(scratch)
    candidate = Candidate(source=specimen.source)
    for _ in range(specimen.attempts - 1):
        session.evaluate(candidate, floors=floors)
    is_final = NOT_FASTER in specimen.expect
    evaluation = session.evaluate(candidate, floors=floors, final=is_final)
    is_slow = evaluation.is_verified and not evaluation.is_faster
    control = ""
    left: tuple[str, ...] = ()
    if specimen.kind is Kind.HOSTILE:
        left = left_behind(before, scratch)
        after = session.evaluate(Candidate(source=honest_twin(session.task)), floors=floors)
        control = after.status if after.is_verified else f"{after.status} by {after.check}: {after.detail}"
    return SpecimenResult(
        specimen=specimen,
        outcome=NOT_FASTER if is_final and is_slow else evaluation.status,
        check=evaluation.check,
        detail=evaluation.detail,
        speedup=evaluation.geomean_speedup(),
        seconds=time.perf_counter() - begin,
        control=control,
        left=left,
    )
