"""The asking side of a drop folder, with a platform that answers well, badly, late or never."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.task import Task
from kernelwright.remote.answers import DropRequest
from kernelwright.remote.filedrop import FileDropEvaluator
from kernelwright.runs.evaluator import Evaluator

KERNEL = Candidate(source="x = 'ü'\r\n# kernel\n")
TASK = Task(name="t", source="reference")
VERIFIED = {"status": "verified", "latency_ms": {"default": 1.0}, "baseline_ms": {"default": 3.0}}


class Platform:
    """Stands in for a platform and for time: acts while the evaluator sleeps, one step a sleep."""

    def __init__(self, folder: Path, *steps: Callable[["Platform"], None]) -> None:
        self.folder, self.steps, self.now = folder, list(steps), 0.0

    def sleep(self, seconds: float) -> None:
        """Let time pass and act."""
        self.now += seconds
        if self.steps:
            self.steps.pop(0)(self)

    def evaluator(self, timeout_s: float = 10.0, **more: Any) -> FileDropEvaluator:
        """Return an evaluator that lives in this time."""
        return FileDropEvaluator(
            self.folder, timeout_s, 1.0, clock=lambda: self.now, sleep=self.sleep, **more
        )

    @property
    def request(self) -> Path:
        """The one request in the outbox."""
        (path,) = [path for path in (self.folder / "outbox").iterdir() if not path.name.startswith(".")]
        return path

    @property
    def inbox(self) -> Path:
        """Where its answer belongs."""
        return self.folder / "inbox" / f"{self.request.name}.json"


def writes(document: Any) -> Callable[[Platform], None]:
    """Return a step that puts an answer into the inbox."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return lambda platform: void(platform.inbox.write_bytes(data))


def void(_: object) -> None:
    """Drop a value."""


def waits(platform: Platform) -> None:
    """Do nothing for one step."""


def ask(evaluator: Evaluator, **more: Any) -> Evaluation:
    """Ask for a verdict on the kernel."""
    with evaluator.open(TASK) as session:
        assert session.baseline_ms == {}
        return session.evaluate(KERNEL, **more)


def test_a_request_is_a_kernel_and_a_document_and_the_answer_a_verdict(tmp_path: Path) -> None:
    platform = Platform(tmp_path, waits, writes(VERIFIED))
    evaluation = ask(platform.evaluator(), baselines=("eager", "torch_compile"))
    assert evaluation.geomean_speedup() == pytest.approx(3.0)
    assert (evaluation.candidate_id, evaluation.task_id) == (KERNEL.id, TASK.id)
    assert (platform.request / "kernel.py").read_bytes() == KERNEL.program.encode()
    request = DropRequest.model_validate_json((platform.request / "request.json").read_bytes())
    assert (request.task, request.candidate_id) == (TASK, KERNEL.id)
    assert request.baselines == ("eager", "torch_compile")


def test_an_answered_request_is_not_made_again(tmp_path: Path) -> None:
    ask(Platform(tmp_path, writes(VERIFIED)).evaluator())
    resumed = Platform(tmp_path)
    before = resumed.request.stat().st_mtime_ns
    assert ask(resumed.evaluator()).is_verified
    assert (resumed.now, resumed.request.stat().st_mtime_ns) == (0.0, before)


def test_a_request_that_is_out_is_waited_for_and_not_written_again(tmp_path: Path) -> None:
    assert ask(Platform(tmp_path).evaluator()).status is Status.TIMEOUT
    resumed = Platform(tmp_path, waits, writes(VERIFIED))
    (resumed.request / "kernel.py").write_text("the platform's own mark")
    assert ask(resumed.evaluator()).is_verified
    assert (resumed.request / "kernel.py").read_text() == "the platform's own mark"


def test_a_search_and_a_final_measurement_are_two_requests(tmp_path: Path) -> None:
    ask(Platform(tmp_path, writes(VERIFIED)).evaluator())
    assert ask(Platform(tmp_path).evaluator(), final=True).status is Status.TIMEOUT
    assert len(list((tmp_path / "outbox").iterdir())) == 2


def test_no_answer_is_a_timeout_that_says_where_one_was_expected(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    evaluation = ask(platform.evaluator(timeout_s=5.0))
    assert evaluation.status is Status.TIMEOUT
    assert evaluation.detail == (
        f"no verdict: no inbox/{platform.inbox.name} within 5 s; a later one counts when asked again"
    )
    assert platform.now == 5.0


def test_a_half_written_answer_is_read_again(tmp_path: Path) -> None:
    whole = json.dumps(VERIFIED).encode()
    platform = Platform(tmp_path, writes(whole[:10]), writes(whole[:20]), writes(whole))
    assert ask(platform.evaluator()).is_verified


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "Expecting"),
        (b"\xff\xfe", "no UTF-8"),
        (b"[]", "no JSON object"),
        (b" " * 4_000_001, "more than 4000000 bytes"),
        (b'{"status": "verified"}', "latency_ms"),
    ],
)
def test_a_malformed_answer_is_rejected_with_what_to_mend(tmp_path: Path, data: bytes, words: str) -> None:
    platform = Platform(tmp_path, writes(data))
    evaluation = ask(platform.evaluator())
    assert evaluation.status is Status.REJECTED and evaluation.results == ()
    assert evaluation.detail.startswith(f"no verdict: inbox/{platform.inbox.name} is malformed: ")
    assert words in evaluation.detail
    writes(VERIFIED)(platform)
    assert ask(platform.evaluator()).is_verified


def test_a_malformed_answer_at_the_last_moment_is_not_a_timeout(tmp_path: Path) -> None:
    assert ask(Platform(tmp_path, writes(b"{")).evaluator(timeout_s=1.0)).status is Status.REJECTED


def test_a_refused_task_and_a_failed_platform_are_exceptions(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="t: not deterministic"):
        ask(Platform(tmp_path, writes({"refused": "not deterministic"})).evaluator())
    other = tmp_path / "other"
    with pytest.raises(MachineError, match="t: the platform failed: no nodes; run again"):
        ask(Platform(other, writes({"failed": "no nodes"})).evaluator())
    assert ask(Platform(other, writes(VERIFIED)).evaluator()).is_verified  # the next answer counts


def test_a_live_module_stays_here(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="live module"):
        FileDropEvaluator(tmp_path).open(Task(name="live", source="x", artifact="/tmp/x.pkl"))


def test_an_outbox_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    evaluator = Platform(tmp_path).evaluator()
    (tmp_path / "outbox").rmdir()
    (tmp_path / "outbox").write_text("in the way")
    with pytest.raises(MachineError, match=r"outbox/.* cannot be written"):
        ask(evaluator)


@pytest.mark.parametrize("bad", [{"timeout_s": -1}, {"poll_s": 0}, {"margin": 1.0}, {"margin": float("nan")}])
def test_numbers_that_make_no_sense_are_refused(tmp_path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="drop folder needs"):
        FileDropEvaluator(tmp_path, **bad)
