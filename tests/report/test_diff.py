"""One source against another."""

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.candidate import Candidate
from kernelwright.report.diff import MAX_LINES, changes, compare

LINES = st.lists(st.sampled_from(["a = 1", "b = 2", "-- c", "++ d", "@@ e", ""]), max_size=12)


@given(LINES, LINES)
def test_added_and_removed_lines_are_the_difference_in_number(old: list[str], new: list[str]) -> None:
    found = compare("t", "\n".join(old), "\n".join(new)).lines
    assert found is not None
    count = {kind: sum(line.kind == kind for line in found) for kind in ("added", "removed")}
    assert count["added"] - count["removed"] == max(len(new), 1) - max(len(old), 1)
    assert bool(found) == (old != new and "\n".join(old) != "\n".join(new))


def test_a_changed_comment_of_dashes_is_no_header() -> None:
    found = compare("t", "-- old\nx", "++ new\nx").lines
    assert found is not None
    assert [(line.kind, line.text) for line in found[1:3]] == [("removed", "-- old"), ("added", "++ new")]


def test_hidden_characters_are_named_and_long_sources_left_out() -> None:
    found = compare("t", "x", "y\x1b[31m").lines
    assert found is not None and any("⟨ESC⟩" in line.text for line in found)
    assert compare("t", "x", "y\n" * (MAX_LINES + 1)).lines is None


def test_a_candidate_stands_beside_parent_first_ancestor_and_reference() -> None:
    first = Candidate(source="one", parents=("elsewhere",))
    second = Candidate(source="two", parents=(first.id,))
    third = Candidate(source="three", parents=(second.id,))
    run = {one.id: one for one in (first, second, third)}
    assert [len(changes(one, run, "zero")) for one in (first, second, third)] == [1, 2, 3]
    titles = [one.title for one in changes(third, run, "zero")]
    assert second.id in titles[0] and first.id in titles[1] and "reference" in titles[2]


def test_candidates_that_name_each_other_as_parents_end() -> None:
    one = Candidate(source="one")
    two = Candidate(source="two", parents=(one.id,))
    circular = one.model_copy(update={"parents": (two.id,)})
    assert changes(two, {one.id: circular, two.id: two}, "zero")


def test_against_the_reference_stand_the_classes_alone() -> None:
    reference = "import torch\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return x\n"
    body = "class ModelNew(\n    nn.Module\n):\n    def forward(self, x):\n        return fast(x)\n"
    (found,) = changes(Candidate(source=f"PRELUDE = 1\n\n{body}\n\nN = 1\n"), {}, reference + "\n\nN = 1\n")
    assert found.lines is not None
    text = {kind: [line.text for line in found.lines if line.kind == kind] for kind in ("added", "removed")}
    assert text["removed"] == ["class Model(nn.Module):", "        return x"]
    assert text["added"] == ["class ModelNew(", "    nn.Module", "):", "        return fast(x)"]


def test_without_both_classes_the_whole_texts_are_compared() -> None:
    (found,) = changes(Candidate(source="class ModelNew:\n    pass\n"), {}, "def reference(): ...\n")
    assert found.lines is not None and found.title == "Against the reference"
    assert [line.text for line in found.lines if line.kind == "removed"] == ["def reference(): ..."]
