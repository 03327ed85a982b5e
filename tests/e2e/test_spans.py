"""Spans of a run: nested as the run is, and none where they are not asked for."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab.servers.bad_server import BadServer
from lab.servers.playing_model import TASK, ScriptedReferee
from tests.e2e.conftest import Play
from tests.e2e.test_tools import Asking

from kernelwright.core import spans
from kernelwright.core.budget import Budget
from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec

trace = pytest.importorskip("opentelemetry.trace")


class Recorder(trace.NoOpTracer):  # type: ignore[misc,name-defined]
    """A stub of a tracer, which keeps (depth, name, attributes) of every span it opens."""

    def __init__(self) -> None:
        self.opened: list[tuple[int, str, dict[str, Any]]] = []
        self._depth = 0

    @contextmanager
    def start_as_current_span(self, name: str, *args: Any, **how: Any) -> Iterator[Any]:
        self.opened.append((self._depth, name, dict(how["attributes"])))
        self._depth += 1
        try:
            with super().start_as_current_span(name, *args, **how) as opened:
                yield opened
        finally:
            self._depth -= 1


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    monkeypatch.setattr(spans, "_tracer", lambda: found)
    return found


def played(play: Play, *, instrument: bool) -> None:
    with BadServer(Asking()) as server:
        models = ModelSettings(
            model="openai:scripted", base_url=server.url, tool_calls=1, instrument=instrument
        )
        budget = Budget(evaluations=2)
        play(
            RunSpec(task=TASK, recipe="refine", team="llm", models=models, budget=budget, is_cold=True),
            ScriptedReferee(),
        )


def test_a_run_holds_its_steps_and_they_hold_tools_and_evaluations(play: Play, recorder: Recorder) -> None:
    played(play, instrument=True)
    (depth, name, told), *inner = recorder.opened
    assert (depth, name) == (0, "invoke_workflow refine")
    assert told["gen_ai.operation.name"] == "invoke_workflow"
    kinds = {(depth, name.partition(" ")[0]) for depth, name, _ in inner}
    assert {(1, "step"), (2, "execute_tool"), (2, "evaluate")} <= kinds
    assert ("execute_tool read_skill", "read_skill") in {
        (name, told.get("gen_ai.tool.name")) for _, name, told in inner
    }


def test_nothing_is_traced_unless_it_is_asked_for(play: Play, recorder: Recorder) -> None:
    played(play, instrument=False)
    assert recorder.opened == []


@pytest.mark.slow
def test_an_exporter_of_the_user_s_sends_one_trace_nested_as_the_run_is(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    program = [sys.executable, "-m", "tests.e2e.export_spans", str(tmp_path / "spans.db")]
    root = Path(__file__).parents[2]
    done = subprocess.run(program, cwd=root, capture_output=True, text=True, timeout=300, check=True)
    sent = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len({trace_id for _, _, trace_id, _ in sent}) == 1
    named = [(depth, name.partition(" ")[0]) for depth, name, _, _ in sent]
    assert named[0] == (0, "invoke_workflow") and (1, "step") in named and (2, "evaluate") in named
    assert (3, "chat") in named, "in the span of the agent, which is in that of the step"
    assert any(name == "execute_tool" for _, name in named)
    chat = next(keys for _, name, _, keys in sent if name.startswith("chat"))
    assert {"gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"} <= set(chat)
