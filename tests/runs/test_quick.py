from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Task
from kernelwright.runs.quick import Quick
from kernelwright.testing.fake_run import FakeReferee

TASK = Task(name="t", source="")
KNOWN, UNKNOWN = Candidate(source="known"), Candidate(source="unknown")


def test_a_final_verdict_is_the_searchs_own() -> None:
    """The referee is a stand-in that remembers what it was asked."""
    referee = FakeReferee({"known": 2.0})
    with Quick(referee).open(TASK) as session:
        found = session.evaluate(KNOWN)
        assert session.evaluate(KNOWN, final=True) == found and not found.is_final
        assert session.baseline_ms == {"default": 10.0}
    assert referee.asked == [("known", False)]


def test_what_is_not_known_or_has_other_baselines_is_measured_as_in_the_search() -> None:
    referee = FakeReferee({})
    with Quick(referee).open(TASK) as session:
        session.evaluate(UNKNOWN, final=True)
        session.evaluate(UNKNOWN, final=True, baselines=("eager", "torch_compile"))
    assert referee.asked == [("unknown", False), ("unknown", False)]
