"""The model Debugger: cause first, with words from the log; then the smallest change."""

import pytest
from tests.agents.llm.conftest import BROKEN, KERNEL

from kernelwright.agents.llm.asking import Asker
from kernelwright.agents.llm.debugger import ModelDebugger
from kernelwright.agents.llm.sources import fold
from kernelwright.agents.roles import Situation
from kernelwright.core.errors import UnusableAnswer
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.skill import Skill
from kernelwright.testing.scripted_client import ScriptedClient

CAUSE: dict[str, object] = {
    "critical_issue": "wrong sign",
    "quotes": ["out0[3] is  -400.2,\nexpected 400.2", "a line that was never logged"],
    "root_cause": "`relu_sum` subtracts",
    "minimal_fix": "add instead",
}
FIXED = f"Change: add instead of subtract\n```python\n{fold(KERNEL)}```"


def debugger(
    skills: dict[str, Skill], *answers: str | dict[str, object]
) -> tuple[ModelDebugger, ScriptedClient]:
    client = ScriptedClient({"debugger": list(answers)})
    return ModelDebugger(Asker(client, "debugger", skills)), client


def test_a_repair_takes_two_calls_and_names_its_cause(broken: Situation, skills: dict[str, Skill]) -> None:
    mender, client = debugger(skills, CAUSE, FIXED)
    repaired = mender.repair(broken, ())
    assert repaired is not None
    candidate, move = repaired
    assert candidate.source == KERNEL and candidate.parents == (BROKEN.id,)
    assert candidate.plan == BROKEN.plan.then(move) and candidate.role == "debugger"
    assert (move.skill, move.why, move.text) == ("repair", "`relu_sum` subtracts", "add instead of subtract")
    assert "Shown by: out0[3] is -400.2, expected 400.2" in client.asked[1].user
    assert "never logged" not in client.asked[1].user
    assert len(client.asked) == 2 and client.notes == []


def test_quotes_that_occur_nowhere_are_refused(broken: Situation, skills: dict[str, Skill]) -> None:
    mender, client = debugger(skills, {**CAUSE, "quotes": ["segmentation fault"]})
    with pytest.raises(UnusableAnswer, match=r"^invalid_output: no quote"):
        mender.repair(broken, ())
    assert len(client.asked) == 2


def test_the_same_source_or_a_used_up_repair_is_refused(broken: Situation, skills: dict[str, Skill]) -> None:
    same = f"```python\n{fold(BROKEN.source)}```"
    mender, client = debugger(skills, CAUSE, same, FIXED)
    repaired = mender.repair(broken, ())
    assert repaired is not None and client.notes[0].outcome is CallOutcome.UNRESOLVED_ANCHOR
    mender, client = debugger(skills, CAUSE, FIXED)
    with pytest.raises(UnusableAnswer, match="this very repair was tried"):
        mender.repair(broken, (repaired[1].key,))


def test_giving_up_the_kernel_is_no_repair(broken: Situation, skills: dict[str, Skill]) -> None:
    plain = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    mender, _ = debugger(skills, CAUSE, f"```python\n{plain}```")
    with pytest.raises(UnusableAnswer, match=r"^wrong_language"):
        mender.repair(broken, ())


def test_a_merged_repair_takes_one_call_and_names_its_cause(
    broken: Situation, skills: dict[str, Skill]
) -> None:
    client = ScriptedClient({"debugger": [f"Cause: `relu_sum` subtracts\n{FIXED}"]})
    repaired = ModelDebugger(Asker(client, "debugger", skills), is_merged=True).repair(broken, ())
    assert repaired is not None and repaired[0].source == KERNEL
    assert (repaired[1].why, repaired[1].text) == ("`relu_sum` subtracts", "add instead of subtract")
    assert len(client.asked) == 1 and "Find the root cause" in client.asked[0].system
