"""What a run's spec says of itself."""

import pytest

from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task


@pytest.mark.parametrize(
    ("team", "coder"),
    [
        ("expert", "expert"),
        ("llm", "llm"),
        ("expert+planner=llm", "expert"),
        ("expert+planner=llm,coder=llm", "llm"),
        ("llm + coder = expert", "expert"),
        ("llm+generator=expert", "llm"),
    ],
)
def test_the_coders_seat_is_read_off_the_teams_name(team: str, coder: str) -> None:
    assert RunSpec(task=Task(name="t", source="s"), recipe="r", team=team).coder == coder
