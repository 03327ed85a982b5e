"""Whatever a model answers, a run ends with a reason, after few requests, and with an honest count."""

from collections.abc import Callable

import pytest
from lab.servers.bad_server import BadServer, Behaviour, refuses, says
from lab.servers.playing_model import REFERENCE, TASK, ScriptedReferee, block, kernel

from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec
from kernelwright.runs.loop import RunOutcome
from kernelwright.testing.fake_run import FakeReferee

Play = Callable[[RunSpec, FakeReferee], RunOutcome]
MAX_REQUESTS = 24

HIDDEN = kernel(1).replace(
    "        x = x.contiguous()\n",
    "        try:\n            pass\n        except Exception:\n"
    "            return torch.relu(x * self.scale).sum(dim=1)\n        x = x.contiguous()\n",
)
TRITON = kernel(1).replace("import torch\n", "import torch\nimport triton\n", 1)
RENAMED = REFERENCE.replace("class Model(", "class ModelNew(")


def play_answer(play: Play, answer: Behaviour, *, team: str = "llm") -> tuple[RunOutcome, int]:
    with BadServer(answer) as server:
        models = ModelSettings(model="openai:scripted", base_url=server.url)
        spec = RunSpec(task=TASK, recipe="kernelskill", team=team, models=models, is_cold=True)
        return play(spec, ScriptedReferee()), len(server.requests)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("no_code", says("First I would look at the loops.")),
        ("several_blocks", says(f"{block(kernel(1))}\n\nOr:\n\n{block(kernel(2))}")),
        ("reference_returned", says(block(RENAMED))),
        ("hides_reference", says(block(HIDDEN))),
        ("wrong_language", says(block(TRITON))),
        ("truncated", says(block(kernel(1))[:400], finish_reason="length")),
        ("empty", says("")),
        ("refused", refuses()),
    ],
)
def test_an_unusable_answer_ends_by_name(play: Play, name: str, answer: Behaviour) -> None:
    outcome, n_requests = play_answer(play, answer)
    assert set(outcome.answers) == {name}
    assert 0 < sum(outcome.answers.values()) <= n_requests <= MAX_REQUESTS
    assert outcome.reason == "no seed could be written"
    assert outcome.winner is None and not outcome.every_call_failed


def test_prose_for_json_ends_by_name_and_the_experts_seed_is_kept(play: Play) -> None:
    outcome, n_requests = play_answer(play, says("Let me think."), team="expert+planner=llm")
    assert set(outcome.answers) == {"invalid_output"}
    assert n_requests <= MAX_REQUESTS
    assert outcome.reason and not outcome.every_call_failed
    assert outcome.evaluation is not None
