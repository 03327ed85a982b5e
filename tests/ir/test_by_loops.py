"""Answers that depend on a region alone are worked out once: for all schedules, or once for each."""

from dataclasses import replace

from kernelwright.ir.by_loops import KEPT, by_loops, by_program, by_region
from kernelwright.ir.normalise import normalise
from kernelwright.ir.program import Axis, Program, Region
from kernelwright.targets.cpp.schedule import CppSchedule

asked: list[str] = []


@by_loops
def named(region: Region, word: str = "") -> str:
    asked.append(region.name)
    return f"{region.name} {word}"


@by_region
def told(region: Region, width: int) -> str:
    asked.append(region.name)
    return f"{region.name} {region.schedule} {width}"


@by_program
def counted(program: Program) -> int:
    asked.append("program")
    return len(program.steps)


def region(name: str) -> Region:
    return Region(name, (Axis("i", 4),), (Axis("j", 8),), ())


def test_another_schedule_of_the_same_loops_is_not_asked_again() -> None:
    asked.clear()
    one = region("one")
    assert named(one) == named(replace(one, comment="again")) == "one "
    assert asked == ["one"]
    assert named(one, "word") == "one word"


def test_what_depends_on_the_schedule_is_asked_once_for_each() -> None:
    asked.clear()
    one = replace(region("one"), schedule=CppSchedule(unroll=2))
    other = replace(one, schedule=CppSchedule(unroll=4))
    answers = [told(given, 64) for given in (one, other, replace(one, schedule=CppSchedule(unroll=2)))]
    assert answers[0] == answers[2] != answers[1] and asked == ["one", "one"]
    assert told(one, 32) != answers[0]
    assert told(replace(one, name="two"), 64) != answers[0]


def test_equal_loops_of_another_object_are_others() -> None:
    asked.clear()
    named(region("one"))
    named(region("two"))
    assert asked == ["one", "two"]


def test_a_program_is_asked_once_for_the_same_steps_and_buffers() -> None:
    asked.clear()
    one = Program((), (region("one"),), (), False)
    longer = replace(one, steps=(*one.steps, region("two")))
    assert [counted(p) for p in (one, replace(one, given_up="why"), longer, one)] == [1, 1, 2, 1]
    assert asked == ["program", "program"]


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
