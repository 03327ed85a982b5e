"""What every store must do; subclass StoreContract, with fixtures ``store``, ``second`` and ``reader``."""

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelwright.core.budget import Spent
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import StoreError, UserError
from kernelwright.core.evaluation import Evaluation, NumericalError, Stage, Status
from kernelwright.core.events import CandidateEvaluated, CandidateWritten, Event, RunFinished, StepStarted
from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.machine import Machine
from kernelwright.core.model_call import CallOutcome, ModelCall
from kernelwright.core.plan import Move, Plan
from kernelwright.core.run import Outcome, RunSpec, RunState
from kernelwright.core.tally import histograms_of, tallies_of
from kernelwright.core.task import Task, Workload
from kernelwright.store.base import Notebook, Store
from kernelwright.store.lease import Lease, LeaseLost, Owner, RunHeld

OPEN_SETTINGS = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


def make_spec(**changes: object) -> RunSpec:
    """Return a run's specification; ``changes`` replace its fields."""
    task = Task(
        name="double", source="class Model: ...", workloads=(Workload(overrides={"N": (1, 2.5, None)}),)
    )
    fields: dict[str, object] = {
        "task": task,
        "recipe": "kernelskill",
        "environment": {"cores": 2, "avx": True},
    }
    return RunSpec.model_validate(fields | changes)


def make_candidate(text: str = "class ModelNew: ...", skill: str = "unroll") -> Candidate:
    """Return a candidate with a plan of one move."""
    move = Move(skill=skill, params={"factor": 4, "streamed": False, "share": 0.5})
    return Candidate(source=text, plan=Plan(moves=(move,)), parents=("p",), role="coder")


def make_evaluation(candidate_id: str, *, error: float = 0.0, is_final: bool = False) -> Evaluation:
    """Return an evaluation that failed on numerics by ``error``."""
    measured = NumericalError(
        workload="default", family="as_is", output="out0", error=error, reference_error=0.0, allowed=1.0
    )
    return Evaluation(
        candidate_id=candidate_id,
        task_id="t",
        stage=Stage.VERIFY,
        status=Status.INCORRECT_NUMERICS,
        errors=(measured,),
        is_final=is_final,
    )


def make_outcome(n: int = 0, **changes: object) -> Outcome:
    """Return an outcome; ``changes`` replace its fields."""
    fields: dict[str, object] = dict.fromkeys(("target", "structure", "bottleneck", "task_id", "run_id"), "x")
    return Outcome.model_validate(
        fields | {"skill": f"skill-{n}", "move_key": "m", "verified": True} | changes
    )


def make_model_call(n: int = 0, **changes: object) -> ModelCall:
    """Return a model call with its answer; ``changes`` replace its fields."""
    fields: dict[str, object] = {
        "key": f"key-{n}",
        "role": "planner",
        "model": "test:model",
        "request": "[]",
        "response": '{"text": "unroll"}',
        "outcome": CallOutcome.OK,
        "input_tokens": 100 + n,
        "usd": 0.25,
    }
    return ModelCall.model_validate(fields | changes)


def make_plan(n: int = 0, **changes: object) -> ArchivedPlan:
    """Return an archived plan of one move; ``changes`` replace its fields."""
    fields: dict[str, object] = {
        "task_id": f"task-{n}",
        "task_name": f"task {n}",
        "target": "cpu/cpp",
        "signature": {"graph.structure": "reduction", "task.flops": 1000 + n, "graph.n_opaque": None},
        "plan": make_candidate().plan,
        "initial_source": "first",
        "best_source": "best",
        "speedup": 1.5,
        "run_id": f"run-{n}",
    }
    return ArchivedPlan.model_validate(fields | changes)


def make_owner(n: int = 0, **changes: object) -> Owner:
    """Return a process on another machine; ``changes`` replace its fields."""
    fields: dict[str, object] = {"host": f"host-{n}", "place": f"boot-{n}", "pid": 1, "started": "7"}
    return Owner.model_validate(fields | changes)


def make_finding(n: int = 0, **changes: object) -> Finding:
    """Return a proposed finding; ``changes`` replace its fields."""
    fields: dict[str, object] = {"text": f"unroll {n}", "target": "cpu/cpp", "taken_from": ("a", "b")}
    return Finding.model_validate(fields | changes)


def writes_of(store: Store, run_id: str) -> list[Callable[[], object]]:
    """Return every way to write a run."""
    finished = RunFinished(reason="done", winner=None, evaluation=None, spent=Spent())
    return [
        lambda: store.append_event(run_id, CandidateWritten(step=1, candidate="c")),
        lambda: store.add_candidate(run_id, make_candidate()),
        lambda: store.add_model_call(run_id, make_model_call()),
        lambda: store.close_run(run_id, finished, [make_outcome()], make_plan()),
        lambda: store.set_state(run_id, RunState.FINISHED),
    ]


class StoreContract:
    """The conformance suite."""

    @pytest.fixture
    def store(self) -> Store:
        """Return an empty store; subclasses override it."""
        raise NotImplementedError

    @pytest.fixture
    def second(self, store: Store) -> Store:
        """Return the same store as another process opens it; subclasses override it."""
        raise NotImplementedError

    @pytest.fixture
    def reader(self, store: Store) -> Store:
        """Return the same store opened for reading; subclasses override it."""
        raise NotImplementedError

    @pytest.fixture
    def run_id(self, store: Store) -> str:
        """Return the id of a fresh run."""
        return store.create_run(make_spec())

    def test_run_comes_back_as_it_was_given(self, store: Store) -> None:
        spec = make_spec(experiment="bench", seed=7)
        record = store.get_run(store.create_run(spec))
        assert record.spec == spec and record.spec.task.id == spec.task.id
        assert record.state is RunState.RUNNING and record.failure is None
        assert record.created_at.tzinfo is UTC and record.created_at <= record.updated_at

    def test_run_ids_are_short_unique_and_sorted_by_time(self, store: Store) -> None:
        ids = [store.create_run(make_spec()) for _ in range(20)]
        assert len(set(ids)) == 20 and max(map(len, ids)) <= 12
        assert [key[:8] for key in ids] == sorted(key[:8] for key in ids)

    def test_runs_are_listed_oldest_first_and_by_experiment(self, store: Store) -> None:
        names = ["a", None, "a"]
        ids = [store.create_run(make_spec(experiment=name)) for name in names]
        assert [record.run_id for record in store.iter_runs()] == ids
        assert [record.run_id for record in store.iter_runs("a")] == [ids[0], ids[2]]
        assert list(store.iter_runs("b")) == []

    def test_newest_runs_come_first_and_no_more_than_asked_for(self, store: Store) -> None:
        ids = [store.create_run(make_spec(experiment=name)) for name in ("a", None, "a", "b")]
        assert [record.run_id for record in store.newest_runs(3)] == ids[:0:-1]
        assert [record.run_id for record in store.newest_runs(experiment="a")] == [ids[2], ids[0]]
        assert store.newest_runs(0) == []

    def test_runs_that_asked_alike_are_found_newest_first(self, store: Store) -> None:
        alike = [store.create_run(make_spec(experiment=name)) for name in ("a", "b")]
        likened = make_spec().task.model_copy(update={"likeness": "l", "source": "class Model: 1"})
        others: list[dict[str, Any]] = [{"seed": 1}, {"recipe": "other"}, {"team": "llm"}, {"task": likened}]
        different = [store.create_run(make_spec(**changes)) for changes in others]
        assert [record.run_id for record in store.alike_runs(make_spec())] == alike[::-1]
        other_weights = likened.model_copy(update={"source": "class Model: 2"})
        found = store.alike_runs(make_spec(task=other_weights))
        assert [record.run_id for record in found] == different[3:]

    def test_a_mark_differs_when_the_run_has_changed(self, store: Store) -> None:
        first, second = store.create_run(make_spec()), store.create_run(make_spec())
        before = store.run_marks(5)
        assert store.run_marks(5) == before and store.run_marks(1) == before[:1]
        store.append_event(first, CandidateWritten(step=1, candidate="c"))
        written = store.run_marks(5)
        assert (written[0], len(written)) == (before[0], 2) and written[1] != before[1]
        store.take_lease(second, Owner.here())
        assert store.run_marks(1) != written[:1]

    def test_machines_are_counted_with_the_runs_at_work_on_them(self, store: Store) -> None:
        one, two = Machine(processor="one", cores=2), Machine(processor="two")
        ids = [store.create_run(make_spec(machine=machine)) for machine in (two, one, one)]
        store.take_lease(ids[2], Owner.here())
        found = [(use.machine.processor, use.runs, use.at_work) for use in store.machines()]
        assert found == [("one", 2, 1), ("two", 1, 0)]

    def test_live_leases_of_some_runs_are_found(self, store: Store) -> None:
        ids = [store.create_run(make_spec()) for _ in range(3)]
        leases = [store.take_lease(run_id, Owner.here()) for run_id in ids]
        store.release_lease(leases[1])
        assert store.leases_of(ids[:2]) == {ids[0]: leases[0]} and store.leases_of([]) == {}

    def test_run_is_found_by_its_beginning(self, store: Store) -> None:
        first, second = store.create_run(make_spec()), store.create_run(make_spec())
        found = store.find_run(first)
        assert found is not None and found.run_id == first
        assert store.find_run("zzzz") is None and store.find_run("%") is None
        with pytest.raises(UserError, match=second):
            store.find_run(first[:2])

    def test_state_and_failure_are_kept(self, store: Store, run_id: str) -> None:
        store.set_state(run_id, RunState.FAILED, "no compiler")
        record = store.get_run(run_id)
        assert (record.state, record.failure) == (RunState.FAILED, "no compiler")

    def test_unknown_run_is_an_error_that_names_it(self, store: Store) -> None:
        event = CandidateWritten(step=1, candidate="c")
        for call in (
            lambda: store.get_run("nosuch"),
            lambda: store.set_state("nosuch", RunState.FINISHED),
            lambda: store.append_event("nosuch", event),
            lambda: store.add_candidate("nosuch", make_candidate()),
            lambda: store.add_model_call("nosuch", make_model_call()),
        ):
            with pytest.raises(StoreError, match="nosuch"):
                call()

    def test_events_are_numbered_per_run_without_gaps(self, store: Store, run_id: str) -> None:
        other = store.create_run(make_spec())
        store.append_event(other, CandidateWritten(step=9, candidate="other"))
        sent = [StepStarted(step=n, mode="optimize", base=None) for n in range(5)]
        assert [store.append_event(run_id, event) for event in sent] == [1, 2, 3, 4, 5]
        stored = list(store.iter_events(run_id))
        assert [item.event for item in stored] == sent and [item.seq for item in stored] == [1, 2, 3, 4, 5]
        assert [item.seq for item in store.iter_events(run_id, after=3)] == [4, 5]
        assert stored[0].at <= stored[-1].at

    def test_events_are_appended_together_and_read_by_kind(self, store: Store, run_id: str) -> None:
        other = store.create_run(make_spec())
        sent: list[Event] = [StepStarted(step=n, mode="optimize", base=None) for n in range(3)]
        sent += [CandidateWritten(step=n, candidate=f"c{n}") for n in range(3)]
        assert store.append_events(run_id, sent) == 6 and store.append_events(run_id, []) == 6
        assert store.append_event(run_id, sent[0]) == 7
        written = store.iter_events(run_id, after=4, kinds=["candidate_written"])
        assert [(item.seq, item.event) for item in written] == [(5, sent[4]), (6, sent[5])]
        last = store.last_events([run_id, other], "candidate_written")
        assert last == {run_id: sent[5]} and store.last_events([], "run_finished") == {}

    @OPEN_SETTINGS
    @given(detail=st.text(st.characters(exclude_categories=["Cs"])), error=st.floats())
    def test_any_text_and_any_float_come_back(self, store: Store, detail: str, error: float) -> None:
        run_id = store.create_run(make_spec())
        made = make_evaluation("c", error=error).model_dump() | {"detail": detail, "log": detail}
        evaluation = Evaluation.model_validate(made)  # which shows hidden characters by their names
        event = CandidateEvaluated(step=1, candidate="c", evaluation=evaluation)
        store.append_event(run_id, event)
        back = next(iter(store.iter_events(run_id))).event
        assert isinstance(back, CandidateEvaluated) and back.evaluation.detail == evaluation.detail
        returned = back.evaluation.errors[0].error
        assert returned == error or (math.isnan(returned) and math.isnan(error))

    def test_candidates_keep_order_plan_and_identity(self, store: Store, run_id: str) -> None:
        sent = [make_candidate(f"source {n}") for n in (3, 1, 2)]
        for candidate in [*sent, sent[0]]:
            store.add_candidate(run_id, candidate)
        assert list(store.iter_candidates(run_id)) == sent
        assert store.get_candidate(sent[1].id) == sent[1] and store.get_candidate(sent[1].id).id == sent[1].id
        with pytest.raises(StoreError, match="nosuch"):
            store.get_candidate("nosuch")

    def test_candidates_are_added_together(self, store: Store, run_id: str) -> None:
        sent = [make_candidate(f"source {n}") for n in (3, 1, 2)]
        store.add_candidate(run_id, sent[1])
        store.add_candidates(run_id, [*sent, make_candidate("source 3", skill="another")])
        assert list(store.iter_candidates(run_id)) == [sent[1], sent[0], sent[2]]

    def test_one_source_has_its_own_plan_in_each_run(self, store: Store, run_id: str) -> None:
        other = store.create_run(make_spec())
        mine, theirs = make_candidate(skill="unroll"), make_candidate(skill="tile")
        assert mine.id == theirs.id
        store.add_candidate(run_id, mine)
        store.add_candidate(other, theirs)
        assert store.get_candidate(mine.id, other) == theirs and store.get_candidate(mine.id) == mine
        assert list(store.iter_candidates(other)) == [theirs]

    def test_each_run_keeps_its_own_words_for_one_program(self, store: Store, run_id: str) -> None:
        other = store.create_run(make_spec())
        mine = make_candidate("class ModelNew: ...  # fast")
        theirs = make_candidate("class ModelNew: ...  # faster", skill="tile")
        assert mine.id == theirs.id
        store.add_candidate(run_id, mine)
        store.add_candidate(other, theirs)
        assert store.get_candidate(mine.id, run_id) == mine and store.get_candidate(mine.id, other) == theirs
        assert list(store.iter_candidates(other)) == [theirs]

    def test_what_an_older_version_stored_keeps_its_id(self, store: Store, run_id: str) -> None:
        old = make_candidate().known_as("0123456789abcdef")
        store.add_candidate(run_id, old)
        (found,) = store.iter_candidates(run_id)
        assert found == old and found.id == store.get_candidate(old.id).id == "0123456789abcdef"

    def test_latest_evaluation_is_found_and_final_ones_apart(self, store: Store, run_id: str) -> None:
        first, second = make_evaluation("c", error=1.0), make_evaluation("c", error=2.0)
        final = make_evaluation("c", error=3.0, is_final=True)
        assert store.find_evaluation(run_id, "c") is None
        for evaluation in (first, second):
            store.append_event(run_id, CandidateEvaluated(step=1, candidate="c", evaluation=evaluation))
        assert store.find_evaluation(run_id, "c") == second
        assert store.find_evaluation(run_id, "c", is_final=True) is None
        store.append_event(run_id, RunFinished(reason="done", winner="c", evaluation=final, spent=Spent()))
        assert store.find_evaluation(run_id, "c", is_final=True) == final
        assert store.find_evaluation(run_id, "c") == second and store.find_evaluation(run_id, "d") is None

    def test_a_run_is_closed_once_with_all_that_it_leaves(self, store: Store, run_id: str) -> None:
        finished = RunFinished(reason="done", winner=None, evaluation=None, spent=Spent())
        left = [make_outcome(n) for n in range(3)]
        store.close_run(run_id, finished, left, make_plan())
        store.close_run(run_id, finished, left, make_plan(best_source="another"))
        assert [stored.event for stored in store.iter_events(run_id)] == [finished]
        assert [outcome for _, outcome in store.iter_outcomes()] == left
        assert [plan for _, plan in store.iter_plans()] == [make_plan()]

    def test_ledger_can_be_read_as_it_was(self, store: Store) -> None:
        assert store.last_outcome_id() == 0
        ids = [store.add_outcome(make_outcome(n, log_speedup=n / 3)) for n in range(4)]
        assert ids == sorted(set(ids)) and store.last_outcome_id() == ids[-1]
        known = list(store.iter_outcomes(until=ids[1]))
        assert known == [(ids[n], make_outcome(n, log_speedup=n / 3)) for n in range(2)]
        assert len(list(store.iter_outcomes())) == 4

    def test_sums_over_outcomes_are_kept_as_they_come_in(self, store: Store, run_id: str) -> None:
        assert (store.tallies(), store.histograms(), store.count_tasks()) == ({}, {}, 0)
        added = [make_outcome(n % 3, log_speedup=n / 7 - 0.5, task_id=f"t{n % 2}") for n in range(9)]
        added.append(make_outcome(0, verified=False))
        ids = [store.add_outcome(outcome) for outcome in added[:4]]
        finished = RunFinished(reason="done", winner=None, evaluation=None, spent=Spent())
        store.close_run(run_id, finished, added[4:], None)
        ids = [number for number, _ in store.iter_outcomes()]
        assert store.tallies() == tallies_of(added) and store.histograms() == histograms_of(added)
        for n, until in enumerate(ids, 1):
            assert store.tallies(until=until) == tallies_of(added[:n])
        assert store.tallies(until=0) == {} and store.count_tasks() == 3
        assert store.count_learned() == (10, 0)

    def test_model_calls_are_kept_per_run_in_order(self, store: Store, run_id: str) -> None:
        other = store.create_run(make_spec())
        sent = [make_model_call(n) for n in (2, 0, 1, 2)]
        ids = [store.add_model_call(run_id, sent[0]), store.add_model_call(other, make_model_call(9))]
        ids += [store.add_model_call(run_id, call) for call in sent[1:]]
        assert ids == sorted(set(ids))
        assert list(store.iter_model_calls(run_id)) == sent
        assert list(store.iter_model_calls(other)) == [make_model_call(9)]

    def test_a_model_call_takes_the_place_of_the_latest_with_its_key(self, store: Store, run_id: str) -> None:
        calls = [make_model_call(0), make_model_call(1)]
        for call in calls:
            store.add_model_call(run_id, call)
        judged = calls[0].judged_as(CallOutcome.NO_CODE, "prose")
        store.replace_model_call(run_id, judged)
        store.replace_model_call(run_id, make_model_call(7))
        assert list(store.iter_model_calls(run_id)) == [judged, calls[1]], "an unknown one is left out"

    def test_a_model_call_without_answer_or_price_comes_back_so(self, store: Store, run_id: str) -> None:
        call = make_model_call(response=None, usd=None, outcome=CallOutcome.RATE_LIMITED, detail="429\x00é")
        store.add_model_call(run_id, call)
        assert list(store.iter_model_calls(run_id)) == [call]

    def test_archive_can_be_read_as_it_was(self, store: Store) -> None:
        assert store.last_plan_id() == 0
        ids = [store.add_plan(make_plan(n)) for n in range(4)]
        assert ids == sorted(set(ids)) and store.last_plan_id() == ids[-1]
        assert list(store.iter_plans(until=ids[1])) == [(ids[n], make_plan(n)) for n in range(2)]
        assert [plan for _, plan in store.iter_plans()] == [make_plan(n) for n in range(4)]

    def test_plans_are_found_by_target_and_signature(self, store: Store) -> None:
        kinds = [{"graph.structure": "scan"}, {"graph.structure": "reduction", "task.flops": 1.0}]
        added = [make_plan(n, signature=kinds[n % 2], speedup=1.0 + n % 3) for n in range(5)]
        ids = [store.add_plan(plan) for plan in [*added, make_plan(9, target="other")]]
        assert store.newest_plans("cpu/cpp", 2) == added[:2:-1] and store.newest_plans("nowhere", 2) == []
        found = store.plan_signatures("cpu/cpp")
        assert sorted(map(str, (plan.signature for plan in found.values()))) == sorted(map(str, kinds))
        (key,) = [key for key, plan in found.items() if plan.signature == kinds[0]]
        ordered = list(store.iter_plans_of("cpu/cpp", [key]))
        assert ordered == [added[2], added[4], added[0]]
        assert list(store.iter_plans_of("cpu/cpp", list(found), until=ids[1])) == [added[1], added[0]]
        assert list(store.plan_signatures("cpu/cpp", until=ids[0]).values()) == [added[0]]
        assert store.count_plans() == 6

    def test_a_run_archives_one_winner_once(self, store: Store) -> None:
        first = store.add_plan(make_plan())
        assert store.add_plan(make_plan(speedup=9.0)) == first
        store.add_plan(make_plan(best_source="another"))
        assert [plan.speedup for _, plan in store.iter_plans()] == [1.5, 1.5]

    def test_a_finding_is_kept_once_with_its_newest_state_and_proof(self, store: Store) -> None:
        for n in range(3):
            store.add_finding(make_finding(n))
        admitted = make_finding(1, state="admitted", proof=("task c: 1.30x",))
        store.add_finding(admitted)
        assert list(store.iter_findings()) == [make_finding(0), admitted, make_finding(2)]
        assert list(store.iter_findings("admitted")) == [admitted]
        assert list(store.iter_findings("proposed")) == [make_finding(0), make_finding(2)]
        assert list(store.iter_findings("rejected")) == []

    def test_a_run_has_one_owner_at_a_time(self, store: Store, second: Store, run_id: str) -> None:
        assert store.lease_of(run_id) is None
        lease = store.take_lease(run_id, Owner.here())
        assert second.lease_of(run_id) == lease and lease.owner.pid == Owner.here().pid
        before = store.get_run(run_id)
        with pytest.raises(RunHeld, match=f"run {run_id} .* process {lease.owner.pid} on this machine since"):
            second.take_lease(run_id, make_owner())
        assert second.get_run(run_id) == before
        store.release_lease(lease)
        assert second.take_lease(run_id, make_owner()).token > lease.token

    def test_only_the_owner_writes_a_run(self, store: Store, second: Store, run_id: str) -> None:
        store.take_lease(run_id, Owner.here())
        other = second.create_run(make_spec())
        for write in writes_of(second, run_id):
            with pytest.raises(LeaseLost, match=run_id):
                write()
        assert list(store.iter_events(run_id)) == [] == list(store.iter_candidates(run_id))
        assert list(store.iter_model_calls(run_id)) == [] == list(store.iter_outcomes())
        assert store.get_run(run_id).state is RunState.RUNNING
        for write in writes_of(store, run_id):
            write()
        second.append_event(other, CandidateWritten(step=1, candidate="c"))

    def test_an_owner_that_was_not_heard_of_is_replaced_and_writes_no_more(
        self, store: Store, second: Store, run_id: str
    ) -> None:
        paused = store.take_lease(run_id, make_owner(1), seconds=0.0)
        assert second.lease_of(run_id) is None
        taken = second.take_lease(run_id, make_owner(2))
        for write in writes_of(store, run_id):
            with pytest.raises(LeaseLost, match="taken over"):
                write()
        with pytest.raises(LeaseLost):
            store.renew_lease(paused)
        store.release_lease(paused)
        assert second.lease_of(run_id) == taken
        for write in writes_of(second, run_id):
            write()

    def test_an_owner_that_is_replaced_by_nobody_goes_on(self, store: Store, run_id: str) -> None:
        lease = store.take_lease(run_id, make_owner(), seconds=0.0)
        store.append_event(run_id, CandidateWritten(step=1, candidate="c"))
        store.renew_lease(lease)
        assert store.lease_of(run_id) is not None

    def test_a_dead_owner_on_this_machine_is_replaced_at_once(
        self, store: Store, second: Store, run_id: str
    ) -> None:
        dead = Owner.here().model_copy(update={"started": "before"})
        store.take_lease(run_id, dead)
        assert second.lease_of(run_id) is None
        second.take_lease(run_id, Owner.here())
        with pytest.raises(LeaseLost):
            store.set_state(run_id, RunState.FINISHED)

    def test_of_many_that_want_a_run_one_gets_it(self, store: Store, second: Store, run_id: str) -> None:
        taken: list[Lease] = []

        def take(which: Store) -> None:
            with suppress(RunHeld):
                taken.append(which.take_lease(run_id, Owner.here()))

        threads = [threading.Thread(target=take, args=(which,)) for which in (store, second) * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert taken == [store.lease_of(run_id)]

    def test_reading_sees_all_and_writes_nothing(self, store: Store, run_id: str, reader: Store) -> None:
        store.append_event(run_id, CandidateWritten(step=1, candidate="c"))
        store.add_outcome(make_outcome())
        assert [record.run_id for record in reader.iter_runs()] == [run_id]
        assert [item.seq for item in reader.iter_events(run_id)] == [1]
        assert reader.last_outcome_id() == store.last_outcome_id()
        with pytest.raises(StoreError, match="opened for reading"):
            reader.create_run(make_spec())
        with pytest.raises(StoreError, match="opened for reading"):
            reader.take_lease(run_id, Owner.here())

    def test_the_librarian_is_given_every_outcome_once(self, store: Store) -> None:
        for n in range(3):
            store.add_outcome(make_outcome(n, run_id=f"run-{n}"))
            store.add_plan(make_plan(n))

        def study(book: Notebook) -> tuple[list[Outcome], list[ArchivedPlan]]:
            return list(book.new_outcomes()), list(book.plans_of(["run-2", "run-0", "nosuch"]))

        outcomes, plans = store.learn(study)
        assert outcomes == [make_outcome(n, run_id=f"run-{n}") for n in range(3)]
        assert plans == [make_plan(0), make_plan(2)] and store.count_learned() == (3, 3)
        store.add_outcome(make_outcome(9))
        assert store.learn(study)[0] == [make_outcome(9)] and store.learn(study)[0] == []
        assert len(store.learn(study, anew=True)[0]) == 4

    def test_notes_are_kept_with_findings_or_not_at_all(self, store: Store) -> None:
        def study(book: Notebook) -> None:
            book.new_outcomes()
            book.write({("a", str(n)): f"note {n}" for n in range(900)} | {("b", ""): "é"})
            book.write({("a", "7"): "seven"})
            book.add_finding(make_finding())

        def fail(book: Notebook) -> None:
            study(book)
            raise ZeroDivisionError

        store.add_outcome(make_outcome())
        with pytest.raises(ZeroDivisionError):
            store.learn(fail)
        assert list(store.iter_findings()) == []
        assert store.learn(lambda book: (len(book.new_outcomes()), book.read_topic("a"))) == (1, {})
        store.learn(study)
        found = store.learn(lambda book: book.read([("a", "7"), ("b", ""), ("b", "none")]))
        assert found == {("a", "7"): "seven", ("b", ""): "é"}
        assert len(store.learn(lambda book: book.read_topic("a"))) == 900
        assert store.learn(lambda book: list(book.findings())) == [make_finding()]
        assert store.learn(lambda book: book.read_topic("a"), anew=True) == {}

    def test_threads_may_write_one_run_at_once(self, store: Store, run_id: str) -> None:
        events: list[Event] = [CandidateWritten(step=n, candidate="c") for n in range(8)]

        def append_all() -> None:
            for event in events:
                store.append_event(run_id, event)

        threads = [threading.Thread(target=append_all) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [item.seq for item in store.iter_events(run_id)] == list(range(1, 33))
