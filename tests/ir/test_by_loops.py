"""Answers that depend on a region's loops alone are worked out once for all of its schedules."""

from dataclasses import replace

from kernelwright.ir.by_loops import KEPT, by_loops
from kernelwright.ir.normalise import normalise
from kernelwright.ir.program import Axis, Region

asked: list[str] = []


@by_loops
def named(region: Region, word: str = "") -> str:
    asked.append(region.name)
    return f"{region.name} {word}"


def region(name: str) -> Region:
    return Region(name, (Axis("i", 4),), (Axis("j", 8),), ())


def test_another_schedule_of_the_same_loops_is_not_asked_again() -> None:
    asked.clear()
    one = region("one")
    assert named(one) == named(replace(one, comment="again")) == "one "
    assert asked == ["one"]
    assert named(one, "word") == "one word"


def test_equal_loops_of_another_object_are_others() -> None:
    asked.clear()
    named(region("one"))
    named(region("two"))
    assert asked == ["one", "two"]


def test_only_so_many_answers_are_kept() -> None:
    first = region("first")
    named(first)
    for number in range(KEPT):
        named(region(str(number)))
    asked.clear()
    named(first)
    assert asked == ["first"]


def test_a_normalised_region_keeps_what_is_its_own() -> None:
    one = region("one")
    other = normalise(replace(one, name="other", comment="c"))
    assert (other.name, other.comment) == ("other", "c") and normalise(one).name == "one"
    assert normalise(one).stages is other.stages
