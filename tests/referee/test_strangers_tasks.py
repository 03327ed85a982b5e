"""References of tasks that come from elsewhere run in the sandbox, as candidates do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.referee.conftest import HEAD, LINEAR, POINTWISE, judge

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Task
from kernelwright.referee.session.host_process import is_trusted
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings


@pytest.fixture(scope="module")
def confining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referee]:
    settings = RefereeSettings(
        cache_dir=tmp_path_factory.mktemp("cache"),
        search_timing_s=0.1,
        batch_s=0.001,
        confine_references=True,
    )
    with Referee(settings) as referee:
        yield referee


def test_an_honest_task_is_judged_as_ever(confining: Referee) -> None:
    with confining.open(Task(name="pointwise", source=POINTWISE)) as session:
        assert judge(session, "return torch.relu(x) * 2 + 1").is_verified
        assert not judge(session, "return torch.relu(x) * 2").is_verified


@pytest.mark.slow
def test_a_task_with_weights_is_judged_as_ever(confining: Referee) -> None:
    init = "self.lin = nn.Linear(128, 64)\nself.norm = nn.BatchNorm1d(64)"
    with confining.open(Task(name="linear", source=LINEAR)) as session:
        assert judge(session, "return torch.relu(self.norm(self.lin(x)))", init=init).is_verified


REACHES = {
    "reads": "open({place!r}).read()",
    "writes": "open({place!r}, 'a').write('x')",
    "connects": "__import__('socket').socket()",
}


@pytest.mark.parametrize("reach", REACHES)
def test_a_stranger_reaches_nothing_of_the_users(confining: Referee, tmp_path: Path, reach: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("kept", encoding="utf-8")
    line = REACHES[reach].format(place=str(secret))
    with pytest.raises(TaskError):
        confining.open(Task(name="thief", source=f"{HEAD}\n{line}\n{POINTWISE}"))
    assert secret.read_text(encoding="utf-8") == "kept"


def test_a_users_own_file_may_read(referee: Referee, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("2", encoding="utf-8")
    source = f"{HEAD}\nopen({str(own)!r}).read()\n{POINTWISE}"
    with referee.open(Task(name="own", source=source)) as session:
        assert judge(session, "return torch.relu(x) * 2 + 1").is_verified


def test_a_reference_that_ends_its_process_is_a_fault_of_the_task(confining: Referee) -> None:
    with pytest.raises(TaskError):
        confining.open(Task(name="ends", source=f"import os\nos._exit(0)\n{POINTWISE}"))


def test_answers_of_a_wrong_form_are_a_fault_of_the_task(confining: Referee) -> None:
    forged = "import kernelwright.referee.host.main as m\nm.Host.describe = lambda self, message: {}\n"
    with pytest.raises(TaskError, match="wrong form"):
        confining.open(Task(name="forges", source=forged + POINTWISE))


def test_a_long_source_is_refused(confining: Referee) -> None:
    with pytest.raises(TaskError, match="at most"):
        confining.open(Task(name="long", source=POINTWISE + "#" * 1_000_001))


def test_a_module_of_the_users_own_stays_trusted() -> None:
    settings = RefereeSettings(cache_dir=Path("/nonexistent"), confine_references=True)
    assert is_trusted(Task(name="live", source="", artifact="/somewhere.pkl"), settings)
    assert not is_trusted(Task(name="file", source=""), settings)
