from lab.sample_run import make_store, verified

from kernelwright.core.events import CandidateEvaluated, StepStarted
from kernelwright.report.story import tell
from kernelwright.report.verdict import evaluation_verdict, run_verdict


def test_every_attempt_of_a_step_is_told_apart() -> None:
    story = tell(make_store().events)
    assert [(s.number, s.outcome) for s in story.steps] == [
        (1, "verified"),
        (2, "not applicable"),
        (2, "verified"),
        (3, "compile error"),
        (4, "verified"),
        (5, "verified"),
    ]
    assert story.steps[1].explanation == "region k0 has no contiguous output"
    assert story.steps[2].diagnosed is story.steps[1].diagnosed


def test_the_final_measurement_is_not_an_evaluation_of_the_search() -> None:
    story = tell(make_store().events)
    assert len(story.evaluated) == 4
    assert story.best is story.steps[2]


def test_a_step_told_again_after_a_resume_replaces_the_first_telling() -> None:
    store = make_store(is_finished=False)
    candidate = next(iter(store.candidates.values()))
    again = [
        StepStarted(step=3, mode="optimize", base=candidate.id),
        CandidateEvaluated(step=3, candidate=candidate.id, evaluation=verified(candidate, 2.0)),
    ]
    story = tell([*store.events, *again])
    assert [s.number for s in story.steps] == [1, 2, 2, 3]
    assert story.steps[-1].outcome == "verified"


def test_a_step_that_found_no_move_is_not_left_running() -> None:
    events = make_store().events
    empty = StepStarted(step=6, mode="optimize", base=None)
    assert tell([*events[:-1], empty]).steps[-1].outcome == "running"
    assert tell([*events[:-1], empty, events[-1]]).steps[-1].outcome == "nothing left to try"


def test_verdict_of_a_winner_names_every_comparison() -> None:
    verdict = run_verdict(tell(make_store().events))
    assert verdict.tone == "good"
    assert verdict.headline == "Verified, 6.00x faster than eager"
    assert verdict.lines == (
        "6.00x [5.76, 6.30] over eager.",
        "1.94x [1.86, 2.03] over torch.compile.",
        "The fastest this machine could do is 1.2 ms; this takes 1.6 ms.",
        "The search ended because every move that applies to the fastest candidate was tried.",
    )


def test_verdict_without_a_winner_says_that_the_module_stays() -> None:
    verdict = run_verdict(tell(make_store(has_winner=False).events))
    assert verdict.headline == "Nothing faster found: the module stays as it is"


def test_verdict_of_unfinished_and_failed_runs() -> None:
    story = tell(make_store(is_finished=False).events)
    assert "Best so far: 5.93x" in run_verdict(story).lines[0]
    assert run_verdict(story, "no compiler").lines == ("no compiler",)


def test_verdict_of_a_bad_kernel_names_stage_status_and_reason() -> None:
    broken = tell(make_store().events).steps[3].evaluation
    assert broken is not None
    verdict = evaluation_verdict(broken)
    assert verdict.headline == "Not verified"
    assert verdict.lines[0].startswith("Stopped at stage build: compile error: kernel.cpp:9")


def test_a_slower_or_undecided_kernel_is_not_called_faster() -> None:
    candidate = next(iter(make_store().candidates.values()))
    assert "faster" not in evaluation_verdict(verified(candidate, 20.0)).headline
    undecided = evaluation_verdict(verified(candidate, 9.6))
    assert "no significant change" in undecided.headline
