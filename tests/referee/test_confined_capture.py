"""Graphs of strangers' tasks: their code runs in the sandbox, and a graph or one line comes back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.strangers import ENDLESS, ENDS, FORGED, HONEST, MEMORY

from kernelwright.core.errors import CaptureError, TaskError
from kernelwright.core.task import Task, Workload
from kernelwright.referee.session.confined import confined_capture
from kernelwright.referee.settings import RefereeSettings
from kernelwright.tasks.capture import Capture, capture_task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def capture(folder: Path) -> Iterator[Capture]:
    with confined_capture(RefereeSettings(cache_dir=folder)) as capture:
        yield capture


def test_an_honest_task_gives_the_graph_that_it_gives_here(capture: Capture) -> None:
    task, workload = Task(name="honest", source=HONEST), Workload(name="small", overrides={"size": 8})
    here, there = capture_task(task, workload), capture(task, workload)
    assert str(there.graph) == str(here.graph)
    assert there.placeholders == here.placeholders and there.placeholders[1].shape == (8, 8)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (ENDS + HONEST, "reference's process"),
        (MEMORY + HONEST, "MemoryError"),
        ("raise ValueError('no')\n" + HONEST, "ValueError"),
        ("import torch\n", "defines no `Model`"),
        (HONEST + "#" * 1_000_001, "at most|more than"),
    ],
)
def test_a_task_that_fails_is_at_fault_in_one_line(capture: Capture, source: str, says: str) -> None:
    with pytest.raises(TaskError, match=says) as refused:
        capture(Task(name="fails", source=source), Workload())
    assert "\n" not in str(refused.value)


def test_a_forged_answer_is_no_graph(capture: Capture) -> None:
    with pytest.raises(CaptureError, match="no graph"):
        capture(Task(name="forges", source=FORGED + HONEST), Workload())


def test_what_torch_cannot_capture_is_said_as_it_is_here(capture: Capture) -> None:
    source = HONEST.replace("torch.diag(scale) @ x", "x if scale.sum() > 0 else -x")
    with pytest.raises(CaptureError, match=r"torch\.export"):
        capture(Task(name="branches", source=source), Workload())


def test_a_task_that_never_ends_is_ended(folder: Path) -> None:
    with (
        confined_capture(RefereeSettings(cache_dir=folder, load_timeout_s=1.0)) as impatient,
        pytest.raises(TaskError, match="no answer within"),
    ):
        impatient(Task(name="endless", source=ENDLESS + HONEST), Workload())


def test_a_pickled_module_is_no_strangers_task(capture: Capture) -> None:
    with pytest.raises(TaskError, match="your own"):
        capture(Task(name="live", source="", artifact="/somewhere.pkl"), Workload())
