"""The service over real HTTP, with a stub in the referee's place."""

import itertools
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.remote.conftest import LIMIT_S, TASK, TOKEN, Service, serving

from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.frozen import content_hash
from kernelwright.core.machine import Accelerator, Machine
from kernelwright.core.roofline import Floor, Peaks, Work
from kernelwright.core.task import Task, Workload
from kernelwright.core.version import __version__
from kernelwright.remote import open_evaluator
from kernelwright.remote.client import RemoteEvaluator
from kernelwright.remote.service import make_app

PEAKS = Peaks(
    device="made up",
    n_threads=1,
    bandwidth_gbps=10.0,
    cache_bandwidth_gbps=10.0,
    cache_bytes=1,
    fma_gflops=1e6,
    source="made up for tests",
)


def error(answer: httpx.Response) -> str:
    """Return the one line of a refusal."""
    line = answer.json()["error"]
    assert isinstance(line, str) and "\n" not in line
    return line


def test_a_verdict_over_http(service: Service) -> None:
    answer = service.submit("kernel")
    assert answer.status_code == 202
    result = service.result(answer.json()["id"])
    assert result["state"] == "done"
    evaluation = Evaluation.model_validate(result["evaluation"])
    assert evaluation.geomean_speedup() == pytest.approx(2.0)
    assert evaluation.task_id == TASK.id


def test_health_needs_no_token_and_shows_the_queue(service: Service) -> None:
    service.stub.go.clear()
    service.submit("one")
    assert service.stub.busy.wait(LIMIT_S)
    service.submit("two")
    health = httpx.get(f"{service.url}/health", trust_env=False).json()
    assert health == {"service": "kernelwright", "version": __version__, "queued": 1, "running": 1, "gpu": ""}


def test_nothing_happens_without_the_token(service: Service) -> None:
    wrong = ("Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN)
    headers = [None, *wrong, "Bearer \xe9\xfc"]
    places = [
        ("POST", "/tasks"),
        ("POST", "/evaluations"),
        ("GET", "/evaluations/0"),
        ("DELETE", "/evaluations/0"),
    ]
    with httpx.Client(base_url=service.url, trust_env=False) as stranger:
        for header, (method, path) in itertools.product(headers, places):
            sent = {} if header is None else {b"Authorization": header.encode("latin-1")}
            answer = stranger.request(method, path, headers=sent, content=b"{}")
            assert answer.status_code == (401 if header is None else 403), (header, method, path)
            assert TOKEN not in answer.text
    assert service.stub.asked == []


def test_without_a_token_only_programs_on_this_machine_are_answered(
    start_service: Callable[..., Service],
) -> None:
    service = start_service(token=None)
    service.admit()
    rebound = service.post("/tasks", TASK, headers={"Host": "evil.example"})
    assert rebound.status_code == 403
    form = service.post("/tasks", TASK, headers={"Content-Type": "text/plain"})
    assert (form.status_code, error(form)) == (415, "send the header Content-Type: application/json")


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/tasks", "", "no Task"),
        ("/tasks", "{", "no Task"),
        ("/tasks", "[" * 100_000, "no Task"),
        ("/tasks", '{"name": "x"}', "source: Field required"),
        ("/tasks", '{"name": "x", "source": "y", "seed": 1}', "seed: Extra inputs"),
        ("/tasks", '{"name": "x", "source": "y", "workloads": []}', "workload names must be unique"),
        ("/evaluations", "null", "no EvaluationRequest"),
        ("/evaluations", '{"task_id": "x"}', "candidate: Field required"),
        ("/evaluations", b"\xff\xfe".decode("latin-1"), "no EvaluationRequest"),
    ],
)
def test_a_body_that_is_none_is_refused_in_one_line(
    service: Service, path: str, body: str, words: str
) -> None:
    answer = service.post(path, body)
    assert answer.status_code == 400
    assert words in error(answer)
    service.admit()


def test_a_task_is_admitted_once(service: Service) -> None:
    again = service.post("/tasks", TASK)
    assert again.json() == {"task_id": TASK.id, "state": "done", "baseline_ms": {"default": 10.0}}
    assert service.stub.opened == ["stub"]


def test_a_refused_task_is_422_with_its_line_and_the_service_lives_on(service: Service) -> None:
    for _ in range(2):
        answer = service.post("/tasks", Task(name="dice", source="refuse me"))
        assert (answer.status_code, error(answer)) == (422, "dice: not deterministic; try eval mode")
    live = Task(name="live", source="x", artifact="/tmp/module.pkl")
    assert service.post("/tasks", live).status_code == 422
    assert service.submit("kernel").status_code == 202


def test_a_refusal_that_nobody_waited_for_is_delivered_once(start_service: Callable[..., Service]) -> None:
    service = start_service(max_wait_s=0.0)
    while service.post("/tasks", TASK).status_code == 202:
        pass
    service.stub.go.clear()
    service.submit("holds the others up")
    dice = Task(name="dice", source="refuse me")
    assert service.post("/tasks", dice).json()["state"] == "queued"
    service.stub.go.set()
    while (health := service.http.get("/health").json())["queued"] or health["running"]:
        pass
    assert service.post("/tasks", dice).status_code == 422
    assert service.post("/tasks", dice).status_code == 202  # another try


def test_a_failing_machine_at_admission_is_500(service: Service) -> None:
    answer = service.post("/tasks", Task(name="t", source="no compiler"))
    assert (answer.status_code, error(answer)) == (500, "no compiler")


def test_an_admission_that_takes_long_is_asked_for_again(start_service: Callable[..., Service]) -> None:
    service = start_service(max_wait_s=0.01)
    while (answer := service.post("/tasks", TASK)).status_code == 202:
        pass
    service.stub.go.clear()
    service.submit("slow")
    assert service.stub.busy.wait(LIMIT_S)
    other = Task(name="other", source="other")
    waiting = service.post("/tasks", other)
    assert (waiting.status_code, waiting.json()["state"]) == (202, "queued")
    service.stub.go.set()
    while (answer := service.post("/tasks", other)).status_code == 202:
        pass
    assert answer.json()["baseline_ms"] == {"default": 10.0}
    assert service.stub.opened == ["stub", "other"]


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ({"baselines": ["jax"]}, 422, "unknown baseline 'jax'; known: eager, torch_compile"),
        (
            {"candidate": {"source": "k", "target": {"device": "tpu", "language": "cpp"}}},
            422,
            "unknown target",
        ),
        (
            {"candidate": {"source": "k", "target": {"device": "cuda", "language": "triton"}}},
            422,
            "needs a GPU",
        ),
        ({"task_id": "0123456789abcdef"}, 404, "POST it to /tasks first"),
        ({"attempt": "x" * 101}, 400, "attempt"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    service: Service, more: dict[str, Any], status: int, words: str
) -> None:
    body = {"task_id": TASK.id, "candidate": {"source": "k"}} | more
    answer = service.http.post("/evaluations", json=body)
    assert answer.status_code == status
    assert words in error(answer)
    assert service.stub.asked == []


def test_a_service_on_a_gpu_takes_what_is_for_it_and_nothing_else(
    start_service: Callable[..., Service],
) -> None:
    """The GPU is said to be there; a stub is in the referee's place."""
    service = start_service(device="cuda", gpu="h200-sxm", baselines=("eager", "eager_tf32"))
    service.admit()
    body: dict[str, Any] = {"task_id": TASK.id, "candidate": {"source": "k"}, "baselines": ["eager_tf32"]}
    refused = service.http.post("/evaluations", json=body)
    assert refused.status_code == 422 and "judged on cuda here" in error(refused)
    body["candidate"]["target"] = {"device": "cuda", "language": "triton"}
    taken = service.http.post("/evaluations", json=body)
    assert taken.status_code == 202 and service.result(taken.json()["id"])["state"] == "done"


def test_a_service_tells_its_machine_to_who_has_the_token(
    start_service: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(cores=64, peaks=PEAKS, accelerator=Accelerator(name="h200-sxm"))
    service = start_service(machine=machine)
    monkeypatch.setenv("KERNELWRIGHT_SERVE_TOKEN", TOKEN)
    told = open_evaluator(service.url)
    assert isinstance(told, RemoteEvaluator) and told.machine() == machine
    monkeypatch.setenv("KERNELWRIGHT_SERVE_TOKEN", "another")
    refused = open_evaluator(service.url)
    with pytest.raises(UserError, match="refuses the token"):
        assert isinstance(refused, RemoteEvaluator) and refused.machine()


def test_a_service_that_does_not_tell_its_machine_is_one_of_an_unknown_machine(service: Service) -> None:
    assert RemoteEvaluator(service.url, TOKEN).machine() is None


def test_floors_are_of_the_machine_that_measures(start_service: Callable[..., Service]) -> None:
    service = start_service(peaks=PEAKS)
    service.admit()
    theirs = Floor(ms=123.0, bound_by="compute", work=Work(flops=1, min_bytes=10_000_000))
    answer = service.submit("k", floors={"default": theirs.model_dump()})
    service.result(answer.json()["id"])
    assert service.stub.floors["default"].ms == pytest.approx(1.0)
    assert service.stub.floors["default"].bound_by == "memory"
    endless = theirs.model_copy(update={"work": Work(flops=10**400, min_bytes=1)})
    refused = service.submit("k2", floors={"default": endless.model_dump()})
    assert (refused.status_code, error(refused)) == (422, "a floor's work is too large for a number")


def test_a_body_that_is_too_large_is_413(start_service: Callable[..., Service]) -> None:
    service = start_service(max_bytes=2000)
    service.admit()
    answer = service.submit("x" * 2000)
    assert (answer.status_code, error(answer)) == (413, "the body has more than 2000 bytes")
    assert service.submit("x" * 50_000).status_code == 413
    chunks = service.http.post(
        "/tasks", content=iter([b"x" * 1500] * 2), headers={"Content-Type": "application/json"}
    )
    assert chunks.status_code == 413
    assert service.submit("x" * 1000).status_code == 202


def test_a_full_queue_is_429_and_says_when_to_come_back(start_service: Callable[..., Service]) -> None:
    service = start_service(max_queue=2)
    service.admit()
    service.stub.go.clear()
    assert service.submit("running").status_code == 202
    assert service.stub.busy.wait(LIMIT_S)
    assert [service.submit(name).status_code for name in ("a", "b")] == [202, 202]
    refused = service.submit("c")
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert error(refused) == "the queue is full (2 wait); try again later"
    assert service.submit("a").status_code == 202  # what is there already has its place
    service.stub.go.set()


def test_one_client_cannot_take_the_whole_queue(start_service: Callable[..., Service]) -> None:
    service = start_service(max_per_client=2)
    service.admit()
    service.stub.go.clear()
    assert [service.submit(name).status_code for name in ("a", "b", "c")] == [202, 202, 429]
    forged = service.http.post(
        "/evaluations",
        json={"task_id": TASK.id, "candidate": {"source": "c"}},
        headers={"X-Forwarded-For": "10.0.0.1"},
    )
    assert forged.status_code == 429
    with httpx.Client(
        base_url=service.url,
        headers=service.http.headers,
        transport=httpx.HTTPTransport(local_address="127.0.0.2"),
    ) as other:
        answer = other.post("/evaluations", json={"task_id": TASK.id, "candidate": {"source": "c"}})
    assert answer.status_code == 202


def test_the_same_content_is_the_same_evaluation(service: Service) -> None:
    first = service.submit("kernel").json()["id"]
    assert service.submit("kernel").json()["id"] == first
    service.result(first)
    again = service.submit("kernel").json()
    assert (again["id"], again["state"]) == (first, "done")
    others = [service.submit("kernel", **more) for more in ({"final": True}, {"attempt": "2"})]
    assert len({first, *(answer.json()["id"] for answer in others)}) == 3
    for answer in others:
        service.result(answer.json()["id"])
    assert service.stub.asked == ["kernel"] * 3


def test_evaluations_run_in_order_and_never_two_at_once(service: Service) -> None:
    service.stub.go.clear()
    names = [f"k{i}" for i in range(8)]
    answers = [service.submit(name).json() for name in names]
    assert [answer["ahead"] for answer in answers[1:]] == list(range(1, 8))
    service.stub.go.set()
    for answer in answers:
        assert service.result(answer["id"])["state"] == "done"
    assert service.stub.asked == names
    assert service.stub.most_at_once == 1


def test_a_queued_evaluation_can_be_cancelled_and_no_other(service: Service) -> None:
    service.stub.go.clear()
    running = service.submit("running").json()["id"]
    assert service.stub.busy.wait(LIMIT_S)
    queued = service.submit("queued").json()["id"]
    assert service.http.delete(f"/evaluations/{queued}").json()["state"] == "cancelled"
    refused = service.http.delete(f"/evaluations/{running}")
    assert (refused.status_code, error(refused).split(";")[0]) == (409, f"evaluation {running} is running")
    service.stub.go.set()
    assert service.result(running)["state"] == "done"
    assert service.http.delete(f"/evaluations/{running}").status_code == 409
    assert service.result(queued)["state"] == "cancelled"
    assert service.stub.asked == ["running"]
    assert service.submit("queued").json()["state"] != "cancelled"
    assert service.result(queued)["state"] == "done"


@pytest.mark.parametrize(
    ("source", "kind", "line"),
    [
        ("machine", "machine", "the worker process cannot start: no memory"),
        ("task", "task", "the reference died"),
        (
            "defect",
            "machine",
            "ZeroDivisionError: oops; a defect of ours, the service's log has the traceback",
        ),
    ],
)
def test_a_failed_evaluation_says_why_and_the_next_one_works(
    service: Service, source: str, kind: str, line: str
) -> None:
    result = service.result(service.submit(source).json()["id"])
    assert (result["state"], result["evaluation"]) == ("failed", None)
    assert result["problem"] == {"kind": kind, "line": line}
    assert service.result(service.submit("kernel").json()["id"])["state"] == "done"
    assert service.submit(source).json()["state"] != "failed"  # another try


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon", ""])
def test_a_wait_that_is_no_time_is_refused(service: Service, text: str) -> None:
    evaluation_id = service.submit("k").json()["id"]
    answer = service.http.get(f"/evaluations/{evaluation_id}", params={"wait": text})
    assert answer.status_code == 400
    assert "no number of seconds" in error(answer)


def test_polling_answers_at_once_and_waiting_is_bounded(start_service: Callable[..., Service]) -> None:
    service = start_service(max_wait_s=0.05)
    while service.post("/tasks", TASK).status_code == 202:
        pass
    service.stub.go.clear()
    evaluation_id = service.submit("k").json()["id"]
    for wait in (0, 1e9):
        answer = service.http.get(f"/evaluations/{evaluation_id}", params={"wait": wait})
        assert answer.json()["state"] in ("queued", "running")


def test_old_results_and_tasks_are_forgotten(start_service: Callable[..., Service]) -> None:
    service = start_service(max_finished=3, max_tasks=1)
    service.admit()
    ids = []
    for i in range(5):
        ids.append(service.submit(f"k{i}").json()["id"])
        service.result(ids[-1])
    known = [service.http.get(f"/evaluations/{i}").status_code for i in ids]
    assert known == [404, 404, 200, 200, 200]
    service.admit(Task(name="other", source="other"))
    assert service.submit("k9").status_code == 404


def test_an_admission_is_no_evaluation(service: Service) -> None:
    ticket = content_hash("task", "127.0.0.1", TASK.id)
    assert service.http.get(f"/evaluations/{ticket}").status_code == 404


def test_every_workload_has_its_baseline(service: Service) -> None:
    task = Task(name="two", source="two", workloads=(Workload(name="a"), Workload(name="b")))
    assert service.post("/tasks", task).json()["baseline_ms"] == {"a": 10.0, "b": 10.0}


def test_unknown_places_are_json_too(service: Service) -> None:
    assert error(service.http.get("/nothing")) == "Not Found"
    assert service.http.put("/tasks").status_code == 405
    assert service.http.get("/evaluations/..%2f..%2fetc").status_code == 404
    assert "no evaluation" in error(service.http.get("/evaluations/%00"))


def test_the_referee_is_closed_with_the_service(start_service: Callable[..., Service], stub: Any) -> None:
    with serving(make_app(lambda: stub, token=None)) as url:
        httpx.post(
            f"{url}/tasks", content=TASK.model_dump_json(), headers={"Content-Type": "application/json"},
            trust_env=False,
        )  # fmt: skip
        assert stub.is_open == {"stub": True}
    assert (stub.is_open, stub.n_started, stub.n_ended) == ({"stub": False}, 1, 1)
