"""What the compiler's process answers is not believed: names, places and forms are the parent's."""

from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.errors import MachineError
from kernelwright.referee.session.launcher import take_results
from kernelwright.referee.session.shared_memory import SharedMemory


def _reply(**made: Any) -> dict[str, Any]:
    return {
        "exit_code": 0,
        "log": "",
        "made": {name.replace("_", "."): place for name, place in made.items()},
    }


def test_the_expected_files_are_written(tmp_path: Path) -> None:
    room = SharedMemory(64)
    room.bytes[:4] = [1, 2, 3, 4]
    take_results(_reply(kernel_so=[0, 3], report_txt=[3, 1]), room, tmp_path)
    assert (tmp_path / "kernel.so").read_bytes() == bytes([1, 2, 3])
    assert (tmp_path / "report.txt").read_bytes() == bytes([4])


def test_a_name_of_the_builders_own_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "work"
    inside.mkdir()
    reply = {"exit_code": 0, "log": "", "made": {"../escaped": [0, 1], "other": [0, 1]}}
    take_results(reply, SharedMemory(64), inside)
    assert [path.name for path in tmp_path.rglob("*")] == ["work"]


PLACES = [[-1, 4], [0, -4], [4090, 10**6], [0, 10**12], [0], "ab", [0.0, 1.0], [True, 1]]


@pytest.mark.parametrize("place", PLACES)
def test_a_place_outside_the_memory_is_refused(tmp_path: Path, place: Any) -> None:
    with pytest.raises(MachineError, match="not in its memory"):
        take_results(_reply(kernel_so=place), SharedMemory(64), tmp_path)


@pytest.mark.parametrize("reply", [{}, {"made": [], "exit_code": 0, "log": ""}, {"made": {}, "exit_code": 0}])
def test_an_answer_of_another_form_is_refused(tmp_path: Path, reply: dict[str, Any]) -> None:
    with pytest.raises(MachineError, match="no result"):
        take_results(reply, SharedMemory(64), tmp_path)
