"""Every prompt, rendered for the made-up situation, word for word; and that budgets hold."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab.golden import check_golden
from tests.agents.llm.conftest import KERNEL, on_gpu
from tests.agents.llm.test_window import CHANGES

from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.prompts import Prompt, prompts_folder, render
from kernelwright.agents.llm.sources import LOADER_LINE
from kernelwright.agents.llm.span_markers import BEGINS, ENDS
from kernelwright.agents.llm.window import WINDOWS, estimate_tokens
from kernelwright.agents.roles import Node, Situation
from kernelwright.core.plan import Move, Plan
from kernelwright.core.skill import Skill
from kernelwright.core.target import TargetName
from kernelwright.core.task import TolerancePolicy
from kernelwright.targets.registry import all_targets
from kernelwright.testing.fake_run import PEAKS

GOLDEN = Path(__file__).parent / "golden"
MOVE = Move(skill="unroll-accumulators", text="1. split `sum` into four\n2. add them after the loop")
MENU = {"m1": Move(skill="tile-columns", region="r_sum", params={"tile": 64}, why="rows of 4 KB")}
CODE: dict[str, object] = {"needs_kernel": True, "kernels": 1}
ACCOUNT: dict[str, object] = {
    **CODE,
    "n_steps": 2,
    "is_anchored": False,
}
FACTS: dict[str, dict[str, Any]] = {
    "generator": {**CODE, "number": 2, "count": 3, "approach": "fuse.", "has_earlier": True},
    "analyst": {},
    "planner": {"allowed": ["unroll-accumulators", "free"], "only_menu": False, "needs_evidence": True},
    "planner_writes": {**CODE, "allowed": ["unroll-accumulators", "free"], "needs_evidence": True},
    "planner_anchors": {"allowed": ["unroll-accumulators", "free"], "needs_evidence": True},
    "coder_write": {**ACCOUNT, "is_anchored": True},
    "coder_translate": ACCOUNT,
    "coder_rewrite": {**CODE, "number": 2, "count": 4, "has_base": True, "is_failing": False},
    "debugger_diagnose": {},
    "debugger_repair": {**CODE, "is_diagnosed": True},
    "selector": {},
    "designer": {
        "allowed": ["unroll-accumulators", "free"], "only_menu": False, "n_avenues": 10, "n_experiments": 5,
    },
    "breeder_populate": {
        "allowed": ["m1"], "only_menu": True, "count": 4, "is_later": False, "composed": [],
        "bound_by": "memory", "watched": [],
    },
    "breeder_cross": {
        "allowed": ["free"], "bound_by": "compute", "watched": ["counters.ipc"],
        "outcomes": "Plan a: verified, 4 ms.",
    },
    "aligner": {},
}  # fmt: skip
"""What each prompt asks for beyond its sections."""


@pytest.fixture
def told(situation: Situation, broken: Situation, skills: dict[str, Skill]) -> Callable[[str], PromptInput]:
    anchored = KERNEL.replace("    float sum = 0.0f;\n", f"{BEGINS}\n    float sum = 0.0f;\n{ENDS}\n")

    def make(name: str) -> PromptInput:
        return PromptInput(
            situation=broken if name.startswith("debugger") else situation,
            skills=skills,
            plan=Plan(moves=(MOVE,)) if name.startswith(("coder_w", "coder_t", "aligner")) else Plan(),
            anchored=anchored if name == "coder_write" else None,
            menu=MENU if name in ("breeder_populate", "breeder_cross") else {},
            source=KERNEL if name == "aligner" else "",
            cause="Root cause: the sign." if name == "debugger_repair" else "",
        )

    return make


def crowded(told: PromptInput) -> PromptInput:
    """Return the same with kernels that fill any budget."""
    node = told.situation.base
    assert node is not None
    huge = node.candidate.model_copy(update={"source": KERNEL + "# padding\n" * 10_000})
    nodes = tuple(Node(huge, node.evaluation, "sibling") for _ in range(12))
    situation = replace(told.situation, base=replace(node, candidate=huge), window=nodes)
    return replace(told, situation=situation, source=huge.source)


def text_of(prompt: Prompt) -> str:
    return f"{prompt.system}\n\n======== user ========\n\n{prompt.user}\n"


@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_prompt(name: str, told: Callable[[str], PromptInput], request: pytest.FixtureRequest) -> None:
    prompt = render(name, told(name), **FACTS[name])
    check_golden(GOLDEN / f"{name}.md", text_of(prompt), request)


ON_GPU = {
    "planner": TargetName(device="cuda", language="triton"),
    "coder_rewrite": TargetName(device="cuda", language="cuda"),
}
"""Whole prompts for GPUs, one of each language; the rest of a prompt does not depend on the target."""


@pytest.mark.parametrize("name", ON_GPU)
def test_prompt_for_a_gpu(
    name: str, situation: Situation, skills: dict[str, Skill], request: pytest.FixtureRequest
) -> None:
    target = ON_GPU[name]
    prompt = render(name, PromptInput(on_gpu(situation, target), skills), **FACTS[name])
    check_golden(GOLDEN / f"{name}_{str(target).replace('/', '_')}.md", text_of(prompt), request)


@pytest.mark.parametrize("target", ["cuda/triton", "cuda/cuda", "hip/triton"])
@pytest.mark.parametrize("tolerance", [TolerancePolicy.STRICT, TolerancePolicy.TF32])
def test_rules_say_what_the_device_and_the_tolerance_allow(
    target: str, tolerance: TolerancePolicy, situation: Situation
) -> None:
    device, language = target.split("/")
    told = PromptInput(on_gpu(situation, TargetName(device=device, language=language), tolerance))
    rounds = tolerance is TolerancePolicy.TF32 and device == "cuda"
    for limit in (None, 2_000):
        system = render("generator", told, prompt_tokens=limit, **FACTS["generator"]).system
        assert ("# Example" in system) is (limit is None) and "{{" not in system
        assert ('input_precision="ieee"' in system) is (language == "triton" and not rounds)
        assert ("64 lanes" in system) is (device == "hip" and limit is None)
        assert (LOADER_LINE in system) is (language == "cuda")
    whole = render("generator", told, **FACTS["generator"]).system
    assert ('input_precision="tf32"' in whole) is (language == "triton" and rounds)
    assert ("tensor cores with their inputs rounded" in whole) is (language == "cuda" and rounds)
    assert "TUNE = {" in whole and "the points are built and timed" in whole


def test_on_a_gpu_nothing_is_said_of_a_processor(situation: Situation, skills: dict[str, Skill]) -> None:
    told = PromptInput(on_gpu(situation, TargetName(device="cuda", language="cuda")), skills)
    for name in sorted(WINDOWS):
        text = text_of(render(name, told, **FACTS[name]))
        for word in ("OpenMP", "```cpp", "```triton", "cpu/cpp", PEAKS.device, "n_threads", "bypass caches"):
            assert word not in text, (name, word)


def test_every_prompt_file_is_used_and_has_two_parts() -> None:
    files = {path.stem for path in prompts_folder().glob("*.md")}
    assert files == set(WINDOWS) | {"answer_code", "account", "roofline"}
    for target in all_targets():
        if target.prompting is not None:
            own = {path.stem for folder in target.prompting.folders for path in folder.glob("*.md")}
            needed = {"rules", "brief", "example"}
            assert needed <= own <= {*needed, "checked_gpu", "open_values"}


@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_budgets_hold_for_huge_sources_and_many_nodes(name: str, told: Callable[[str], PromptInput]) -> None:
    big = replace(crowded(told(name)), refused="no code: " + "x" * 500)
    for limit in (None, 6_000, 2_000, 512):
        prompt = render(name, big, prompt_tokens=limit, **FACTS[name])
        budget = min(WINDOWS[name].budget_tokens, limit or 10**9)
        assert estimate_tokens(prompt.system) + estimate_tokens(prompt.user) <= budget + 2
    assert "no code" in render(name, big, **FACTS[name]).user or name == "analyst"


def test_what_changes_least_stands_first(told: Callable[[str], PromptInput]) -> None:
    """Servers keep the beginning of a prompt that they have seen."""
    writers = [name for name in WINDOWS if name.startswith(("coder", "generator", "planner_w", "debugger_r"))]
    systems = [render(name, told(name), **FACTS[name]).system for name in writers]
    rules = systems[0].partition("# What you do")[0]
    assert "# Example" in rules and all(system.startswith(rules) for system in systems)
    for name in writers:
        order = [slot.section for slot in WINDOWS[name].slots]
        assert order[:2] == ["contract", "reference"] and order[-1] == "refused"
        assert "base" not in order or "tried" not in order or order.index("base") < order.index("tried")


GROUNDS = (
    "no kernel can be faster than 0.21 ms; bound by memory",
    "run.floor_fraction = 0.0525: far from the floor",
    "1. `unroll-accumulators` (score 0.31)",
    "Ledger on reduction/compute: 4 tries, 3 wins, mean speedup 1.17x where verified.",
    "incorrect_numerics",
)
"""Floor, diagnosis with its numbers, ranked skills with the ledger's figures, what was tried and its end."""


def missing_grounds(name: str, text: str) -> list[str]:
    """Return what a prompt lacks; who carries out a plan or repairs is shown no ranking: it is decided."""
    is_planned = all(slot.section != "ranked" for slot in WINDOWS[name].slots)
    return [
        words for words in (GROUNDS if not is_planned else (*GROUNDS[:2], GROUNDS[4])) if words not in text
    ]


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_change_is_grounded_in_arrives(name: str, told: Callable[[str], PromptInput]) -> None:
    text = text_of(render(name, told(name), **FACTS[name]))
    assert missing_grounds(name, text) == []


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_change_is_grounded_in_is_not_crowded_out(
    name: str, told: Callable[[str], PromptInput]
) -> None:
    given = told(name)
    problem = given.problem
    huge = problem.task.model_copy(update={"source": problem.task.source + "# padding\n" * 10_000})
    situation = replace(given.situation, problem=replace(problem, task=huge))
    prompt = render(name, replace(given, situation=situation), **FACTS[name])
    assert "characters cut" in prompt.user or name.startswith("breeder"), "the breeder is shown no reference"
    assert missing_grounds(name, prompt.user) == []


def test_small_models_get_the_rules_in_brief(told: Callable[[str], PromptInput]) -> None:
    prompt = render("coder_write", told("coder_write"), prompt_tokens=2_500, **FACTS["coder_write"])
    assert "# Example" not in prompt.system and "CPP_SOURCE" in prompt.system
    assert "## The plan" in prompt.user
