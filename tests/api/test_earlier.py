"""Rows of several machines in one table."""

from hypothesis import given
from hypothesis import strategies as st
from tests.report.test_resultspage import row

from kernelwright.api.earlier import Earlier, join
from kernelwright.report.tables import BenchRow


def part(device: str, memory: int, *tasks: str) -> Earlier[BenchRow]:
    rows = tuple(row(task, device=device) for task in tasks)
    return Earlier[BenchRow](rows=rows, devices={device: {"memory_bytes": memory}})


def test_devices_of_one_name_that_differ_are_told_apart() -> None:
    rows, devices = join([part("A", 1, "first"), part("A", 2, "second"), part("A", 1, "third")], [], {})
    assert devices == {"A": {"memory_bytes": 1}, "A (2)": {"memory_bytes": 2}}
    assert [row.device for row in rows] == ["A", "A (2)", "A"]


@given(st.lists(st.tuples(st.sampled_from(["A", "A (2)", "B"]), st.integers(0, 2)), max_size=6))
def test_every_row_keeps_the_facts_of_its_device(judged: list[tuple[str, int]]) -> None:
    parts = [part(device, memory, str(number)) for number, (device, memory) in enumerate(judged)]
    rows, devices = join(parts, [], {})
    assert [devices[row.device]["memory_bytes"] for row in rows] == [memory for _, memory in judged]
