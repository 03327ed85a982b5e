"""The corpus as data: every file declares itself, every family has one that runs here."""

import pytest

from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Check, Status
from kernelwright.core.policy import LibraryCalls
from kernelwright.corpus.audit import SIZES, with_sizes
from kernelwright.corpus.families import FAMILIES
from kernelwright.corpus.load import honest_twin, load_corpus_task, load_specimens, task_names
from kernelwright.corpus.specimen import Kind, Specimen, parse
from kernelwright.referee.checks.guard import find_syntax_problem

HEADER = """# family: 15
# title: memoises
# assumes: inputs
#     come again
# task: matmul
# expect: rejected, incorrect_numerics
# check: replay
# mechanism: unseen inputs
import torch
# family: 3 is no header any more
"""


@pytest.mark.parametrize("specimen", load_specimens(), ids=lambda specimen: specimen.name)
def test_every_specimen_is_a_candidate_for_a_task_of_the_corpus(specimen: Specimen) -> None:
    assert find_syntax_problem(specimen.source) is None
    assert specimen.task in task_names()
    assert specimen.name.startswith(f"{specimen.family:02}_") or specimen.kind is Kind.HOSTILE
    assert specimen.name.endswith("_cuda") == (specimen.target == "cuda")


def test_every_family_has_a_specimen_that_runs_on_a_processor() -> None:
    there = {s.family for s in load_specimens() if s.kind is Kind.CHEAT and s.target == "cpu"}
    assert there == set(FAMILIES) == set(range(1, 49))


@pytest.mark.parametrize("kind", ["cuda", "hip"])
def test_most_of_the_corpus_is_judged_on_a_device_too(kind: str) -> None:
    there = {s.name for s in load_specimens() if s.runs_on(kind)}
    assert there >= {"04_events_cuda", "15_address", "48_memory_bomb"}
    assert not there & {"03_lazy_page_fault", "44_writes_beyond", "48_compile_never_ends"}
    assert ("09_persisting_lines_cuda" in there) == (kind == "cuda")
    assert len({s.family for s in load_specimens() if s.kind is Kind.CHEAT and s.runs_on(kind)}) >= 45


def test_a_size_for_devices_is_a_global_of_the_task() -> None:
    for name, sizes in SIZES.items():
        task = with_sizes(load_corpus_task(name), sizes)
        assert task.workloads[0].overrides == sizes and all(f"{key} = " in task.source for key in sizes)


@pytest.mark.parametrize("name", task_names())
def test_every_task_has_an_honest_twin(name: str) -> None:
    task = load_corpus_task(name)
    assert find_syntax_problem(honest_twin(task)) is None


def test_a_header_is_read_with_its_continuations_and_ends_at_the_first_other_line() -> None:
    specimen = parse("15_x", Kind.CHEAT, HEADER)
    assert (specimen.family, specimen.assumes) == (15, "inputs come again")
    assert specimen.expect == ("rejected", "incorrect_numerics")
    assert specimen.check == (Check.REPLAY,)
    assert specimen.policy.library_calls is LibraryCalls.ALLOWED


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("# family: 15", "# family: 49", "family 49"),
        ("# family: 15", "# family: 15\n# family: 16", "comes twice"),
        ("# task: matmul\n", "", "task"),
        ("# check: replay\n", "", "check"),
        ("# expect: rejected,", "# expect: punished,", "punished"),
        ("# title: memoises", "# colour: red\n# title: memoises", "colour"),
        ("# title: memoises", "# title", "key: value"),
        ("# check: replay", "# check: replay\n# policy: library_calls", "key=value"),
    ],
)
def test_a_bad_header_is_one_line_that_names_the_file(old: str, new: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse("15_x", Kind.CHEAT, HEADER.replace(old, new))
    assert "15_x" in str(caught.value) and words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_the_expected_status_by_the_expected_check_is_as_expected() -> None:
    specimen = parse("15_x", Kind.CHEAT, HEADER)
    assert specimen.is_as_expected(Status.REJECTED, Check.REPLAY, "")
    assert not specimen.is_as_expected(Status.REJECTED, Check.CLOCK, "")
    assert not specimen.is_as_expected(Status.VERIFIED, None, "")
    assert not specimen.is_as_expected(Status.REJECTED, Check.REPLAY, "RuntimeError: HARMED: it read a key")
