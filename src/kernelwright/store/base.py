"""What a store keeps and how it is asked; implementations keep the contract of testing/store_contract.py."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, TypeVar

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import Event, RunFinished
from kernelwright.core.frozen import Frozen
from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.machine import Machine
from kernelwright.core.model_call import ModelCall
from kernelwright.core.run import Outcome, RunSpec, RunState
from kernelwright.core.tally import EffectKey, Histogram, Tally, TallyKey
from kernelwright.store.lease import LEASE_S, Lease, Owner

T = TypeVar("T")

FindingState: TypeAlias = Literal["proposed", "admitted", "rejected"]


class RunRecord(Frozen):
    """One run as the store knows it."""

    run_id: str
    spec: RunSpec
    state: RunState
    created_at: datetime
    """UTC."""
    updated_at: datetime
    """UTC; of the last event or change of state."""
    failure: str | None = None
    """Why a failed run failed."""


class StoredEvent(Frozen):
    """One event of a run, in order."""

    seq: int
    """1, 2, 3 … within the run, without gaps."""
    at: datetime
    """UTC."""
    event: Event


class MachineUse(Frozen):
    """One machine, and how many runs it has had."""

    machine: Machine
    runs: int
    at_work: int
    """Runs that a process is at work on."""
    devices: tuple[str, ...] = ()
    """Devices of a fleet that judge for these."""


class Notebook(Protocol):
    """What the Librarian reads and writes while it learns; all of it is kept, or nothing.

    Notes are texts under a topic and a name. They are made from outcomes and plans alone and say how far the
    Librarian has come, so that it need not look at everything again.
    """

    def new_outcomes(self) -> Sequence[Outcome]:
        """Return the outcomes that no earlier notebook has been given, in order."""
        ...

    def plans_of(self, run_ids: Collection[str]) -> Sequence[ArchivedPlan]:
        """Return the archived plans of some runs, in order."""
        ...

    def read(self, keys: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        """Return the notes under these topics and names, as far as there are any."""
        ...

    def read_topic(self, topic: str) -> Mapping[str, str]:
        """Return the notes of a topic by name."""
        ...

    def write(self, notes: Mapping[tuple[str, str], str]) -> None:
        """Write notes, in place of those that are there."""
        ...

    def findings(self) -> Sequence[Finding]:
        """Return all findings in the order their ids first came up."""
        ...

    def add_finding(self, finding: Finding) -> None:
        """Record a finding, or replace the record of the one that has its id."""
        ...


class LearnedStore(Protocol):
    """The part that outlives every run: the ledger, the plan archive and the findings."""

    def add_outcome(self, outcome: Outcome) -> int:
        """Append to the ledger of all runs; returns the outcome's id, larger than any before."""
        ...

    def iter_outcomes(self, *, until: int | None = None) -> Iterator[tuple[int, Outcome]]:
        """Yield ids and outcomes in order, up to and including ``until``."""
        ...

    def tallies(self, *, until: int | None = None) -> Mapping[TallyKey, Tally]:
        """Return the sums over all outcomes, up to and including ``until``; they are kept, not made anew."""
        ...

    def histograms(self) -> Mapping[EffectKey, Histogram]:
        """Return how often each log-speedup was measured, over all outcomes."""
        ...

    def count_tasks(self) -> int:
        """Return how many tasks the outcomes are about."""
        ...

    def last_outcome_id(self) -> int:
        """Return the id of the newest outcome, 0 when there is none."""
        ...

    def add_plan(self, plan: ArchivedPlan) -> int:
        """Append to the plan archive; returns the plan's id, larger than any before.

        A run archives a winner once: adding it again keeps the first record and returns its id, so that a
        run that was interrupted at its end can be carried on.
        """
        ...

    def iter_plans(self, *, until: int | None = None) -> Iterator[tuple[int, ArchivedPlan]]:
        """Yield ids and plans in order, up to and including ``until``."""
        ...

    def newest_plans(self, target: str, count: int) -> Sequence[ArchivedPlan]:
        """Return the newest plans for a target, newest first."""
        ...

    def plan_signatures(self, target: str, *, until: int | None = None) -> Mapping[str, ArchivedPlan]:
        """Return one plan of every signature that plans for the target have, by the signature's key."""
        ...

    def iter_plans_of(
        self, target: str, signatures: Collection[str], *, until: int | None = None
    ) -> Iterator[ArchivedPlan]:
        """Yield a target's plans with these signatures, the fastest first, read as they are taken."""
        ...

    def last_plan_id(self) -> int:
        """Return the id of the newest plan, 0 when there is none."""
        ...

    def add_finding(self, finding: Finding) -> None:
        """Record a finding, or replace the record of the one that has its id."""
        ...

    def iter_findings(self, state: FindingState | None = None) -> Iterator[Finding]:
        """Yield the findings in the order their ids first came up; only those in that state when named."""
        ...

    def count_plans(self) -> int:
        """Return how many plans there are."""
        ...

    def count_learned(self) -> tuple[int, int]:
        """Return how many outcomes and plans there are."""
        ...

    def learn(self, study: Callable[[Notebook], T], *, anew: bool = False) -> T:
        """Let the Librarian study what is new, in one transaction; of several, one after the other.

        ``anew`` forgets all notes first, so that everything is new. ``study`` may be called more than once,
        each time with a notebook of its own; what the last one wrote is kept.
        """
        ...


class Store(LearnedStore, Protocol):
    """Runs and what happened in them; every write is durable when its call returns.

    A run that has a lease is written by the lease's holder alone: every write checks it in the same
    transaction and raises LeaseLost otherwise. A run without one may be written by anybody.

    Safe to use from several threads, and from several processes that opened it each for themselves (a
    forked child must open it anew). Every method may raise StoreError; so does naming an unknown run.
    """

    def create_run(self, spec: RunSpec) -> str:
        """Record a new run as RUNNING; returns its id: short, and later ids sort after earlier ones."""
        ...

    def get_run(self, run_id: str) -> RunRecord:
        """Return the run with exactly this id."""
        ...

    def find_run(self, prefix: str) -> RunRecord | None:
        """Return the run whose id begins so, None when none does; UserError when several do."""
        ...

    def iter_runs(self, experiment: str | None = None) -> Iterator[RunRecord]:
        """Yield the runs, oldest first; only those of the experiment when one is named."""
        ...

    def newest_runs(self, limit: int | None = None, *, experiment: str | None = None) -> Sequence[RunRecord]:
        """Return the newest runs, newest first."""
        ...

    def alike_runs(self, spec: RunSpec) -> Iterator[RunRecord]:
        """Yield the runs that may have asked the same, newest first; they are read as they are taken.

        They have the same task, or one that is told to be alike, target, recipe, team and seed.
        """
        ...

    def run_marks(self, limit: int) -> Sequence[str]:
        """Return a mark of each of the newest runs, newest first: it differs when the run has changed."""
        ...

    def machines(self) -> Sequence[MachineUse]:
        """Return the machines of all runs, those with most runs first."""
        ...

    def leases_of(self, run_ids: Collection[str]) -> Mapping[str, Lease]:
        """Return the live leases of some runs."""
        ...

    def take_lease(self, run_id: str, owner: Owner, *, seconds: float = LEASE_S) -> Lease:
        """Make this store, for ``owner``, the only one that writes the run.

        Raises:
            RunHeld: a live lease is another's: not run out, and its owner not known to be dead.
        """
        ...

    def renew_lease(self, lease: Lease, *, seconds: float = LEASE_S) -> None:
        """Keep a lease that this store took for longer; raises LeaseLost when another has taken the run."""
        ...

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back; harmless when it is lost already."""
        ...

    def lease_of(self, run_id: str) -> Lease | None:
        """Return the run's live lease, None when nobody is at work on it."""
        ...

    def set_state(self, run_id: str, state: RunState, failure: str | None = None) -> None:
        """Record where the run stands."""
        ...

    def append_event(self, run_id: str, event: Event) -> int:
        """Append one event; returns its number within the run."""
        ...

    def append_events(self, run_id: str, added: Sequence[Event]) -> int:
        """Append events, all or none; returns the last one's number within the run."""
        ...

    def close_run(
        self, run_id: str, finished: RunFinished, outcomes: Sequence[Outcome], plan: ArchivedPlan | None
    ) -> None:
        """Append the closing event with all that the run leaves to others: everything is kept, or nothing.

        A run is closed once: closing it again changes nothing.
        """
        ...

    def iter_events(
        self, run_id: str, *, after: int = 0, kinds: Collection[str] = ()
    ) -> Iterator[StoredEvent]:
        """Yield the run's events with a number above ``after``, in order; of ``kinds`` if any are named."""
        ...

    def last_events(self, run_ids: Collection[str], kind: str) -> Mapping[str, Event]:
        """Return the last event of a kind in each of some runs, as far as they have one."""
        ...

    def add_candidate(self, run_id: str, candidate: Candidate) -> None:
        """Record a candidate of the run; the first record of an id in a run stays."""
        ...

    def add_candidates(self, run_id: str, added: Sequence[Candidate]) -> None:
        """Record candidates of the run in their order, all or none."""
        ...

    def get_candidate(self, candidate_id: str, run_id: str | None = None) -> Candidate:
        """Return a candidate as it was written in ``run_id``, else where it first came up.

        Raises:
            StoreError: no such candidate (in that run).
        """
        ...

    def iter_candidates(self, run_id: str) -> Iterator[Candidate]:
        """Yield the run's candidates in the order they were added."""
        ...

    def find_evaluation(self, run_id: str, candidate_id: str, *, is_final: bool = False) -> Evaluation | None:
        """Return the candidate's latest evaluation in the run's events, None when there is none."""
        ...

    def add_model_call(self, run_id: str, call: ModelCall) -> int:
        """Append a model call to the run; returns the call's id, larger than any before."""
        ...

    def replace_model_call(self, run_id: str, call: ModelCall) -> None:
        """Put a call in the place of the run's latest one with the same key, if there is one."""
        ...

    def iter_model_calls(self, run_id: str) -> Iterator[ModelCall]:
        """Yield the run's model calls in the order they were added."""
        ...

    def close(self) -> None:
        """Give back connections; the store is not used afterwards."""
        ...


def find_run(store: Store, prefix: str) -> RunRecord:
    """Return the run whose id begins so; raises UserError when there is none."""
    record = store.find_run(prefix)
    if record is None:
        raise UserError(f"no run {prefix!r} in this store; list them with: kernelwright runs list")
    return record
