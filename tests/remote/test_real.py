"""The real referee behind a real server, and behind a folder."""

import builtins
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.referee.conftest import HEAD, POINTWISE
from tests.remote.conftest import TOKEN, serving

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError
from kernelwright.core.evaluation import Status
from kernelwright.core.roofline import Floor, Work
from kernelwright.core.task import Task
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings
from kernelwright.remote.client import RemoteEvaluator
from kernelwright.remote.dropservice import DropService
from kernelwright.remote.filedrop import FileDropEvaluator
from kernelwright.remote.service import make_app
from kernelwright.remote.sessions import Sessions
from kernelwright.runs.evaluator import Session

SAME = Candidate(source=POINTWISE.replace("class Model(", "class ModelNew("))


def quick(cache: Path) -> Referee:
    return Referee(
        RefereeSettings(
            cache_dir=cache, search_timing_s=0.1, final_timing_s=0.2, batch_s=0.001, call_timeout_s=60.0
        )
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def remote(cache: Path) -> Iterator[RemoteEvaluator]:
    with serving(make_app(lambda: quick(cache), token=TOKEN)) as url:
        yield RemoteEvaluator(url, TOKEN)


@pytest.fixture(scope="module")
def session(remote: RemoteEvaluator) -> Iterator[Session]:
    with remote.open(Task(name="pointwise", source=POINTWISE)) as session:
        yield session


def candidate(body: str) -> Candidate:
    lines = [HEAD, "class ModelNew(nn.Module):", "    def forward(self, x):"]
    return Candidate(source="\n".join([*lines, *(f"        {line}" for line in body.splitlines())]))


@pytest.mark.slow
def test_a_kernel_is_verified_and_timed_elsewhere(session: Session) -> None:
    assert session.baseline_ms["default"] > 0
    evaluation = session.evaluate(SAME, floors={"default": _floor(1e-9)})
    assert evaluation.is_verified, evaluation.detail
    speedup = evaluation.results[0].speedup("eager")
    assert speedup is not None and speedup.low <= speedup.ratio <= speedup.high
    assert evaluation.results[0].floor_ms == 1e-9
    assert session.evaluate(SAME, final=True).is_final


def _floor(ms: float) -> Floor:
    return Floor(ms=ms, bound_by="memory", work=Work(flops=1, min_bytes=1))


@pytest.mark.parametrize(
    ("kernel", "status"),
    [
        (candidate("return torch.relu(x) * 2 + 1.5"), Status.INCORRECT_NUMERICS),
        (candidate("import ctypes; ctypes.string_at(0)"), Status.CRASHED),
        (Candidate(source="class ModelNew(:"), Status.PARSE_ERROR),
    ],
)
def test_a_bad_kernel_is_a_status_and_the_service_lives_on(
    session: Session, kernel: Candidate, status: Status
) -> None:
    evaluation = session.evaluate(kernel)
    assert evaluation.status is status, evaluation.detail
    again = session.evaluate(SAME)
    assert again.is_verified, again.detail


def test_a_task_without_one_right_answer_is_a_task_error_in_one_line(remote: RemoteEvaluator) -> None:
    dice = POINTWISE.replace("torch.relu(x)", "torch.rand_like(x)")
    with pytest.raises(TaskError, match="not deterministic") as caught:
        remote.open(Task(name="dice", source=dice))
    assert "\n" not in str(caught.value)


def test_no_code_of_a_task_or_a_kernel_runs_in_the_servers_process(
    remote: RemoteEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "server_is_here", True, raising=False)
    look = "import builtins\nassert not hasattr(builtins, 'server_is_here')\n"
    with remote.open(Task(name="looking", source=look + POINTWISE)) as session:
        evaluation = session.evaluate(Candidate(source=look + SAME.source))
    assert evaluation.is_verified, evaluation.detail


@pytest.mark.slow
def test_a_folder_is_answered_with_the_real_verdict(cache: Path, tmp_path: Path) -> None:
    sessions = Sessions(lambda: quick(cache))
    service = DropService(tmp_path, sessions)
    is_over = threading.Event()

    def pause(seconds: float) -> None:
        if is_over.wait(0.02):
            raise KeyboardInterrupt

    def serve() -> None:
        try:
            service.answer_forever(sleep=pause)
        except KeyboardInterrupt:
            sessions.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        evaluator = FileDropEvaluator(tmp_path, 300.0, 0.02)
        with evaluator.open(Task(name="pointwise", source=POINTWISE)) as session:
            evaluation = session.evaluate(SAME)
            assert evaluation.is_verified, evaluation.detail
            assert session.evaluate(candidate("return x + 1")).status is Status.INCORRECT_NUMERICS
    finally:
        is_over.set()
        thread.join()
