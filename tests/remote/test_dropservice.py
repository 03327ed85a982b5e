"""The answering side of a drop folder, with a stub in the referee's place."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.remote.conftest import StubReferee

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Floor, Peaks, Work
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.remote.answers import DropRequest
from kernelwright.remote.dropservice import DropService
from kernelwright.remote.filedrop import FileDropEvaluator, request_name
from kernelwright.remote.sessions import Sessions
from kernelwright.testing.fake_run import PEAKS, fake_evaluation

KERNEL = Candidate(source="kernel")
TASK = Task(name="t", source="reference")
FLOOR = Floor(ms=99.0, bound_by="memory", work=Work(flops=1, min_bytes=20_000_000))


def make(folder: Path, stub: StubReferee, peaks: Peaks | None = None, **more: Any) -> DropService:
    return DropService(folder, Sessions(lambda: stub), peaks, **more)


def asker(folder: Path, service: DropService) -> FileDropEvaluator:
    """Return an evaluator whose every pause lets the service work."""
    return FileDropEvaluator(folder, 5.0, 1.0, sleep=lambda seconds: void(service.answer_waiting()))


def void(_: object) -> None:
    """Drop a value."""


def test_both_sides_together_give_the_referees_own_evaluation(tmp_path: Path, stub: StubReferee) -> None:
    with asker(tmp_path, make(tmp_path, stub)).open(TASK) as session:
        assert session.evaluate(KERNEL) == fake_evaluation(KERNEL, TASK, 2.0)
        assert session.evaluate(KERNEL, final=True) == fake_evaluation(KERNEL, TASK, 2.0, final=True)
        session.evaluate(KERNEL)
    assert stub.asked == ["kernel", "kernel"]


def test_floors_are_of_the_machine_that_measures(tmp_path: Path, stub: StubReferee) -> None:
    with asker(tmp_path, make(tmp_path, stub, PEAKS)).open(TASK) as session:
        session.evaluate(KERNEL, floors={"default": FLOOR})
    assert stub.floors["default"].ms == pytest.approx(2.0)


def test_a_kernel_for_another_device_is_not_judged(tmp_path: Path, stub: StubReferee) -> None:
    """The GPU is said to be there; a stub is in the referee's place."""
    service = make(tmp_path, stub, device="cuda")
    with (
        pytest.raises(MachineError, match="judged on cuda here"),
        asker(tmp_path, service).open(TASK) as session,
    ):
        session.evaluate(KERNEL)
    there = Candidate(source=KERNEL.source, target=TargetName(device="cuda", language="triton"))
    with asker(tmp_path, service).open(TASK) as session:
        assert session.evaluate(there).is_verified
    assert stub.asked == ["kernel"]


def test_errors_come_back_as_what_they_are(tmp_path: Path, stub: StubReferee) -> None:
    evaluator = asker(tmp_path, make(tmp_path, stub))
    with pytest.raises(TaskError, match="dice: not deterministic; try eval mode"):
        evaluator.open(Task(name="dice", source="refuse me")).evaluate(KERNEL)
    for source, words in (("machine", "no memory"), ("defect", "ZeroDivisionError: oops")):
        with pytest.raises(MachineError, match=words):
            evaluator.open(TASK).evaluate(Candidate(source=source))
    assert evaluator.open(TASK).evaluate(KERNEL).is_verified


def put(folder: Path, name: str, request: str | None, kernel: bytes | None = b"kernel") -> None:
    """Put something like a request into the outbox."""
    path = folder / "outbox" / name
    path.mkdir(parents=True)
    (folder / "inbox").mkdir(exist_ok=True)
    if request is not None:
        (path / "request.json").write_text(request)
    if kernel is not None:
        (path / "kernel.py").write_bytes(kernel)


def document(**more: Any) -> str:
    """Return a right request, or one with something else in it."""
    task = json.loads(TASK.model_dump_json())
    target = {"device": "cpu", "language": "cpp"}
    return json.dumps({"task": task, "candidate_id": KERNEL.id, "target": target, **more})


@pytest.mark.parametrize(
    ("request_", "kernel", "key", "words"),
    [
        ("{", b"kernel", "failed", "no request"),
        (None, b"kernel", "failed", "no request"),
        (document(), None, "failed", "no request"),
        (document(), b"\xff", "failed", "no request"),
        (document(), b"kerne", "failed", "not the kernel that request.json speaks of"),
        (document(), b"k" * 1001, "failed", "more than 1000 bytes"),
        (
            document(task={"name": "l", "source": "x", "artifact": "/x.pkl"}),
            b"kernel",
            "refused",
            "live module",
        ),
    ],
)
def test_what_is_no_request_is_answered_with_why(
    tmp_path: Path, stub: StubReferee, request_: str | None, kernel: bytes | None, key: str, words: str
) -> None:
    put(tmp_path, "0" * 16, request_, kernel)
    assert make(tmp_path, stub, max_bytes=1000).answer_waiting() == 1
    answer = json.loads((tmp_path / "inbox" / f"{'0' * 16}.json").read_text())
    assert words in answer[key]
    assert stub.asked == []


def test_only_requests_without_an_answer_are_looked_at_oldest_first(
    tmp_path: Path, stub: StubReferee
) -> None:
    for i, name in enumerate(["b" * 16, "a" * 16, "c" * 16]):
        source = f"kernel {i}"
        put(tmp_path, name, document(candidate_id=Candidate(source=source).id), source.encode())
        os.utime(tmp_path / "outbox" / name, (1000 + i, 1000 + i))
    put(tmp_path, f".{'d' * 16}.12.tmp", document())
    put(tmp_path, "README", document())
    (tmp_path / "inbox" / f"{'a' * 16}.json").write_text("{}")
    service = make(tmp_path, stub)
    assert (service.answer_waiting(), service.answer_waiting()) == (2, 0)
    assert stub.asked == ["kernel 0", "kernel 2"]


def test_it_goes_on_until_it_is_interrupted(tmp_path: Path, stub: StubReferee) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "new", stub).answer_forever(0.25, sleep)
    assert pauses == [0.25] * 3


def test_who_answers_a_folder_says_on_which_machine(tmp_path: Path, stub: StubReferee) -> None:
    evaluator, machine = FileDropEvaluator(tmp_path), Machine(cores=64, peaks=PEAKS)
    assert evaluator.machine() is None
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, stub, machine=machine).answer_forever(sleep=_interrupt)
    assert evaluator.machine() == machine
    (tmp_path / "machine.json").write_text('{"cores": "many"}')
    with pytest.raises(UserError, match=r"machine\.json: it tells of no machine"):
        evaluator.machine()


def _interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


NAME = "0" * 16
NO_PLAIN_FILE: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda path, secret: path.symlink_to(secret),
    "a pipe": lambda path, secret: os.mkfifo(path),
    "an endless file": lambda path, secret: path.symlink_to("/dev/zero"),
    "a folder": lambda path, secret: path.mkdir(),
}


@pytest.mark.parametrize("file", ["request.json", "kernel.py"])
@pytest.mark.parametrize("case", NO_PLAIN_FILE)
def test_only_plain_files_are_read(tmp_path: Path, stub: StubReferee, file: str, case: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    service = make(tmp_path / "drop", stub)
    put(tmp_path / "drop", NAME, document())
    path = tmp_path / "drop" / "outbox" / NAME / file
    path.unlink()
    NO_PLAIN_FILE[case](path, secret)
    assert service.answer_waiting() == 1
    answer = (tmp_path / "drop" / "inbox" / f"{NAME}.json").read_text()
    assert "no request" in answer and "hunter2" not in answer and stub.asked == []


def test_a_request_that_is_a_link_is_no_request(tmp_path: Path, stub: StubReferee) -> None:
    put(tmp_path / "elsewhere", NAME, document(), KERNEL.source.encode())
    service = make(tmp_path / "drop", stub)
    (tmp_path / "drop" / "outbox").mkdir(parents=True)
    (tmp_path / "drop" / "inbox").mkdir()
    (tmp_path / "drop" / "outbox" / NAME).symlink_to(tmp_path / "elsewhere" / "outbox" / NAME)
    assert service.answer_waiting() == 1 and stub.asked == []


def test_an_answer_never_goes_through_a_link(tmp_path: Path, stub: StubReferee) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    service = make(tmp_path / "drop", stub)
    put(tmp_path / "drop", NAME, "{")
    (tmp_path / "drop" / "inbox" / f"{NAME}.json").symlink_to(tmp_path / "not-there")
    for draft in (f".{NAME}.json.{os.getpid()}.tmp", f".{NAME}.json.tmp"):
        (tmp_path / "drop" / "inbox" / draft).symlink_to(precious)
    assert service.answer_waiting() == 1
    assert precious.read_text() == "kept" and not (tmp_path / "not-there").exists()
    assert "no request" in (tmp_path / "drop" / "inbox" / f"{NAME}.json").read_text()


def test_an_inbox_that_became_a_link_is_not_written_to(tmp_path: Path, stub: StubReferee) -> None:
    service = make(tmp_path / "drop", stub)
    put(tmp_path / "drop", NAME, "{")
    (tmp_path / "drop" / "inbox").rmdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "drop" / "inbox").symlink_to(tmp_path / "home")
    with pytest.raises(MachineError, match="cannot be written"):
        service.answer_waiting()
    assert list((tmp_path / "home").iterdir()) == []


def test_an_answer_that_is_a_pipe_does_not_stop_who_asked(tmp_path: Path, stub: StubReferee) -> None:
    asking = FileDropEvaluator(tmp_path, timeout_s=0.0, sleep=void)
    (tmp_path / "inbox").mkdir(exist_ok=True)
    request = DropRequest.model_validate_json(document())
    os.mkfifo(tmp_path / "inbox" / f"{request_name(request)}.json")
    with pytest.raises(MachineError, match="cannot be read"):
        asking.ask(request, KERNEL.source)
