"""A recorded run plays again exactly, without a network."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.servers.bad_server import (
    BadServer,
    Behaviour,
    calls_tool,
    resets,
    says,
    status,
)
from pydantic import BaseModel

from kernelwright.agents.llm.client import Reply
from kernelwright.agents.llm.model_client import ModelClient
from kernelwright.agents.llm.tape import FolderTape, MemoryTape, ReplayOnly, Tape
from kernelwright.core.budget import Budget, Meter, Spent
from kernelwright.core.errors import ModelUnavailable, StoreError, UserError
from kernelwright.core.model_call import CallOutcome, ModelCall, Question
from kernelwright.core.models import ModelSettings, OutputMode


class Answer(BaseModel):
    """What the planner is asked for."""

    x: int


SCRIPT: tuple[Behaviour, ...] = (
    says("first"),
    says("second"),
    status(503),
    resets(),
    says("after two failures"),
    says("prose"),
    says('{"x": 1}'),
    says(""),
    status(400, "too long"),
    status(401),
)
N_QUESTIONS = 7
NOWHERE = "http://127.0.0.1:9/v1"


class Sleeper:
    """Counts how often it was asked to wait."""

    def __init__(self) -> None:
        self.n_waits = 0

    async def sleep(self, seconds: float) -> None:
        self.n_waits += 1


def play(url: str, tape: Tape, *, n: int = N_QUESTIONS) -> tuple[list[object], Spent, dict[str, int], int]:
    """Ask the first ``n`` questions of a little run and return everything that came of them."""
    sleeper, meter = Sleeper(), Meter(Budget(), lambda: 0.0)
    settings = ModelSettings(
        model="openai:m", base_url=url, usd_per_million_input=1.0, usd_per_million_output=2.0
    )
    client = ModelClient(settings, meter, tape, sleep=sleeper.sleep)
    questions: list[Callable[[], object]] = [
        lambda: client.ask_text("coder", "s", "same"),
        lambda: client.ask_text("coder", "s", "same"),
        lambda: client.ask_text("coder", "s", "other"),
        lambda: client.ask("planner", "s", "json", Answer),
        lambda: client.ask_text("coder", "s", "empty"),
        lambda: client.ask_text("coder", "s", "long"),
        lambda: client.ask_text("coder", "s", "fatal"),
    ]
    seen: list[object] = []
    for question in questions[:n]:
        try:
            seen.append(question())
        except ModelUnavailable as error:
            seen.append(str(error).replace(url, ""))
    return seen, meter.spent, client.account.by_name(), sleeper.n_waits


def test_a_recording_plays_to_the_same_answers_charges_and_account(tmp_path: Path) -> None:
    with BadServer(*SCRIPT) as server:
        live = play(server.url, FolderTape(tmp_path))
        assert len(server.requests) == len(SCRIPT)
    replayed = play(NOWHERE, ReplayOnly(FolderTape(tmp_path)))
    assert replayed[:3] == live[:3]
    assert (live[3], replayed[3]) == (2, 0), "a replay does not wait"
    values = [reply.value for reply in live[0] if isinstance(reply, Reply)]
    assert values == ["first", "second", "after two failures", Answer(x=1), None, None]
    assert live[1].model_calls == len(SCRIPT)


@pytest.mark.parametrize("n_before", range(N_QUESTIONS))
def test_an_interrupted_run_goes_on_where_it_stood(tmp_path: Path, n_before: int) -> None:
    with BadServer(*SCRIPT) as server:
        uninterrupted = play(server.url, MemoryTape())
    with BadServer(*SCRIPT) as server:
        play(server.url, FolderTape(tmp_path), n=n_before)
        resumed = play(server.url, FolderTape(tmp_path))
        assert len(server.requests) == len(SCRIPT), "nothing is asked twice"
    assert resumed[:3] == uninterrupted[:3]


@pytest.mark.parametrize("output_mode", ["tool", "native", "prompted"])
def test_every_output_mode_replays_without_a_key(
    output_mode: OutputMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    tape = MemoryTape()
    settings = ModelSettings(model="openai:m", output_mode=output_mode)
    behaviours = (
        (calls_tool({"x": "?"}), calls_tool({"x": 2}))
        if output_mode == "tool"
        else (says('{"x": "?"}'), says('{"x": 2}'))
    )
    with BadServer(*behaviours) as server:
        live = settings.model_copy(update={"base_url": server.url})
        first = ModelClient(live, Meter(Budget(), lambda: 0.0), tape).ask("planner", "s", "u", Answer)
        assert len(server.requests) == 2
    again = ModelClient(settings, Meter(Budget(), lambda: 0.0), ReplayOnly(tape))
    assert again.ask("planner", "s", "u", Answer) == first
    assert first.value == Answer(x=2)


@pytest.mark.parametrize(
    "change",
    [{"temperature": 0.1}, {"max_output_tokens": 5}, {"model": "openai:other"}, {"output_mode": "native"}],
)
def test_a_changed_request_has_no_answer_in_the_recording(change: dict[str, object]) -> None:
    tape = MemoryTape()
    with BadServer(says('{"x": 1}')) as server:
        settings = ModelSettings(model="openai:m", base_url=server.url)
        ModelClient(settings, Meter(Budget(), lambda: 0.0), tape).ask("planner", "s", "u", Answer)
    changed = ModelClient(settings.model_copy(update=change), Meter(Budget(), lambda: 0.0), ReplayOnly(tape))
    with pytest.raises(UserError, match="the recording has no answer for this request"):
        changed.ask("planner", "s", "u", Answer)


@pytest.mark.parametrize("question", [("planner", "s", "u2"), ("planner", "s2", "u"), ("coder", "s", "u")])
def test_role_system_and_user_all_belong_to_the_request_of_a_run_that_goes_on(
    question: tuple[str, str, str],
) -> None:
    tape = MemoryTape()
    with BadServer(says("hello"), says("another")) as server:
        settings = ModelSettings(model="openai:m", base_url=server.url)
        ModelClient(settings, Meter(Budget(), lambda: 0.0), tape).ask_text("planner", "s", "u")
        resumed = ModelClient(settings, Meter(Budget(), lambda: 0.0), tape)
        assert resumed.ask_text("planner", "s", "u").value == "hello"
        assert len(server.requests) == 1
        assert resumed.ask_text(*question).value == "another"


def replay_of_one(role: str = "planner") -> ModelClient:
    """A client that replays one recorded question: the planner's, for text."""
    tape = MemoryTape()
    with BadServer(says("hello")) as server:
        settings = ModelSettings(model="openai:m", base_url=server.url)
        ModelClient(settings, Meter(Budget(), lambda: 0.0), tape).ask_text(role, "s", "u")
    return ModelClient(settings, Meter(Budget(), lambda: 0.0), ReplayOnly(tape))


def test_a_replay_needs_no_recorded_words() -> None:
    assert replay_of_one().ask_text("planner", "other words", "here too").value == "hello"


def test_a_request_that_was_recorded_gets_its_own_answer_and_other_words_the_first_one_left() -> None:
    tape, settings = MemoryTape(), ModelSettings(model="openai:m", base_url=NOWHERE)
    with BadServer(says("first"), says("second")) as server:
        asked = ModelClient(
            settings.model_copy(update={"base_url": server.url}), Meter(Budget(), lambda: 0.0), tape
        )
        for words in ("u1", "u2"):
            asked.ask_text("coder", "s", words)
    replay = ModelClient(settings, Meter(Budget(), lambda: 0.0), ReplayOnly(tape))
    assert [replay.ask_text("coder", "s", words).value for words in ("u2", "other")] == ["second", "first"]


def test_a_replay_says_when_somebody_else_is_asked() -> None:
    with pytest.raises(UserError, match=r"call 1 asks coder \(openai:m.*recorded .* asked planner"):
        replay_of_one().ask_text("coder", "s", "u")


def test_a_replay_says_when_something_else_is_asked_for() -> None:
    with pytest.raises(UserError, match=r"asks planner .* for prompted JSON \(x\); recorded .* for text"):
        replay_of_one().ask("planner", "s", "u", Answer)


def test_a_replay_says_where_the_recording_ends() -> None:
    replay = replay_of_one()
    replay.ask_text("planner", "s", "u")
    with pytest.raises(UserError, match="no answer left: it ends after 1 calls, and call 2 asks planner"):
        replay.ask_text("planner", "s", "u")


def test_a_record_that_kept_no_question_is_replayed_by_role_and_model() -> None:
    tape = MemoryTape()
    tape.add(
        ModelCall(key="k", role="planner", model="openai:m", request="", response=None, outcome="timed_out")
    )
    assert ReplayOnly(tape).find("", Question(role="planner", model="openai:m", answer="text")).key == "k"
    with pytest.raises(UserError, match="recorded is one that asked planner"):
        ReplayOnly(tape).find("", Question(role="coder", model="openai:m", answer="text"))


def test_a_record_says_what_was_asked_and_what_it_cost() -> None:
    tape = MemoryTape()
    with BadServer(says("hello")) as server:
        settings = ModelSettings(
            model="openai:m", base_url=server.url, usd_per_million_input=1.0, usd_per_million_output=2.0
        )
        ModelClient(settings, Meter(Budget(), lambda: 0.0), tape).ask_text("coder", "be brief", "say it")
    (call,) = tape.calls()
    assert (call.role, call.model, call.outcome) == ("coder", "openai:m", CallOutcome.OK)
    assert (call.input_tokens, call.output_tokens, call.usd) == (11, 7, (11 + 14) / 1e6)
    assert "be brief" in call.request and "say it" in call.request
    assert call.response is not None and "hello" in call.response
    assert call.seconds > 0


def call(n: int, text: str = "") -> ModelCall:
    return ModelCall(key=f"k{n}", role="r", model="p:m", request=text, response=text, outcome=CallOutcome.OK)


@settings(max_examples=20)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_a_folder_gives_back_what_was_put_in(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        calls = [call(n, text) for n, text in enumerate(texts)]
        for one in calls:
            FolderTape(folder).add(one)
        assert list(FolderTape(folder).calls()) == calls
        assert all(FolderTape(folder).find(one.key) == one for one in calls)


@pytest.mark.parametrize("torn", range(1, 40, 6))
def test_a_torn_last_line_is_dropped_and_written_over(tmp_path: Path, torn: int) -> None:
    tape = FolderTape(tmp_path)
    tape.add(call(1))
    tape.add(call(2))
    data = tape.path.read_bytes()
    tape.path.write_bytes(data[:-torn])
    again = FolderTape(tmp_path)
    assert (again.find("k1"), again.find("k2")) == (call(1), None)
    again.add(call(3))
    assert list(FolderTape(tmp_path).calls()) == [call(1), call(3)]


def test_damage_anywhere_else_is_an_error(tmp_path: Path) -> None:
    tape = FolderTape(tmp_path)
    tape.add(call(1))
    tape.path.write_bytes(b"nonsense\n" + tape.path.read_bytes())
    with pytest.raises(StoreError, match=r"line 1 of .*is damaged"):
        FolderTape(tmp_path)


def test_reading_a_folder_creates_nothing(tmp_path: Path) -> None:
    assert FolderTape(tmp_path / "none").find("k") is None
    assert not (tmp_path / "none").exists()
