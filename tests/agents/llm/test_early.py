"""Several requests at once: the same answers, charges and order of everything else as one after the other."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from lab.servers.bad_server import BadServer, Exchange, says, status

from kernelwright.agents.llm.client import Reply, TextQuestion
from kernelwright.agents.llm.model_client import ModelClient
from kernelwright.agents.llm.tape import FolderTape, MemoryTape, ReplayOnly, Tape
from kernelwright.core.budget import Budget, Meter
from kernelwright.core.errors import BudgetUsedUp
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.models import ModelSettings

NOWHERE = "http://127.0.0.1:9/v1"
QUESTIONS = [TextQuestion("s", word) for word in ("one", "busy", "two", "empty", "refused", "three")]
PATIENCE_S = 30.0


class Together:
    """Answers once so many requests are there; alone, a request is refused after a while."""

    def __init__(self, n: int) -> None:
        self._barrier = threading.Barrier(n)

    def __call__(self, exchange: Exchange) -> None:
        try:
            self._barrier.wait(PATIENCE_S)
        except threading.BrokenBarrierError:
            return status(400, "alone")(exchange)
        return says(f"to {exchange.request.text()}")(exchange)


class ByQuestion:
    """Answers by what is asked, whatever comes first; the first time one question meets a busy server."""

    def __init__(self) -> None:
        self._was_busy = False

    def __call__(self, exchange: Exchange) -> None:
        text = exchange.request.text()
        if "busy" in text and not self._was_busy:
            self._was_busy = True
            return status(503)(exchange)
        if "refused" in text:
            return status(400, "too long")(exchange)
        return says("" if "empty" in text else f"to {text}")(exchange)


def client(url: str, tape: Tape, concurrency: int, budget: Budget | None = None) -> tuple[ModelClient, Meter]:
    async def no_sleep(seconds: float) -> None:
        return None

    meter = Meter(budget or Budget(), lambda: 0.0)
    settings = ModelSettings(
        model="openai:m", base_url=url, concurrency=concurrency,
        usd_per_million_input=1.0, usd_per_million_output=2.0,
    )  # fmt: skip
    return ModelClient(settings, meter, tape, sleep=no_sleep), meter


def ask(asked: ModelClient, questions: Sequence[TextQuestion]) -> list[Reply[str]]:
    asked.send_early("coder", iter(questions))
    return [asked.ask_text("coder", *question) for question in questions]


def test_as_many_requests_as_may_be_are_under_way_at_once() -> None:
    with BadServer(Together(3)) as server:
        talker, meter = client(server.url, MemoryTape(), 3)
        replies = ask(talker, [TextQuestion("s", word) for word in ("a", "b", "c")])
        assert [reply.value for reply in replies] == ["to s\na", "to s\nb", "to s\nc"]
        assert len(server.requests) == meter.spent.model_calls == 3


def test_without_leave_nothing_is_sent_before_its_turn() -> None:
    with BadServer(says("x")) as server:
        client(server.url, MemoryTape(), 1)[0].send_early("coder", QUESTIONS)
        client(server.url, MemoryTape(), 4)[0].send_early("coder", QUESTIONS[:1])
        assert not server.requests


def test_answers_charges_and_account_are_those_of_one_after_the_other() -> None:
    seen = []
    for concurrency in (1, 4):
        with BadServer(ByQuestion()) as server:
            talker, meter = client(server.url, MemoryTape(), concurrency)
            replies = ask(talker, QUESTIONS)
            seen.append((replies, meter.spent, talker.account.by_name(), len(server.requests)))
    assert seen[0] == seen[1]
    assert [reply.outcome for reply in seen[0][0]][3:5] == [CallOutcome.EMPTY, CallOutcome.BAD_REQUEST]


def test_the_same_question_twice_is_sent_twice_in_its_turns() -> None:
    with BadServer(says("x")) as server:
        talker, meter = client(server.url, MemoryTape(), 4)
        ask(talker, [TextQuestion("s", "same"), TextQuestion("s", "same")])
        assert len(server.requests) == meter.spent.model_calls == 2


@pytest.mark.parametrize("resumed", [FolderTape, lambda path: ReplayOnly(FolderTape(path))])
def test_what_was_sent_early_is_on_the_tape(tmp_path: Path, resumed: Callable[[Path], Tape]) -> None:
    with BadServer(ByQuestion()) as server:
        client(server.url, FolderTape(tmp_path), 4)[0].send_early("coder", QUESTIONS[:3:2])
        assert len(server.requests) == 2
    talker, meter = client(NOWHERE, resumed(tmp_path), 4)
    assert [reply.value for reply in ask(talker, QUESTIONS[:3:2])] == ["to s\none", "to s\ntwo"]
    assert meter.spent.model_calls == 2


def test_no_more_is_sent_than_the_budget_has_and_what_is_paid_for_is_used() -> None:
    with BadServer(says("x")) as server:
        talker, meter = client(server.url, MemoryTape(), 4, Budget(model_calls=3))
        talker.send_early("coder", QUESTIONS)
        assert len(server.requests) == meter.spent.model_calls == 3
        assert [talker.ask_text("coder", *question).value for question in QUESTIONS[:3]] == ["x"] * 3
        with pytest.raises(BudgetUsedUp):
            talker.ask_text("coder", *QUESTIONS[3])
        assert len(server.requests) == 3
