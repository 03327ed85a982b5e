"""Prompt files: a system part, a line ``---user---``, and the user part with the window's sections."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernelwright.agents.llm.guidance import sections
from kernelwright.agents.llm.prompt_input import PromptInput
from kernelwright.agents.llm.sources import LOADER_LINE
from kernelwright.agents.llm.span_markers import BEGINS, ENDS
from kernelwright.agents.llm.window import WINDOWS, cut_to, estimate_tokens, fit
from kernelwright.agents.problem import Problem
from kernelwright.core.errors import UserError
from kernelwright.core.target import TargetName
from kernelwright.targets.base import Prompting
from kernelwright.targets.registry import all_targets, target_of

SEPARATOR = "---user---"
_INCLUDE = re.compile(r'\{% include (?:rules|"(\w+\.md)") %\}')
LEAST_ROOM = 800
"""Tokens for the sections, below which the rules are given in brief; our choice."""


@dataclass(frozen=True)
class Prompt:
    """What is sent."""

    system: str
    user: str


def prompts_folder() -> Path:
    """Return the folder of the prompt files that come with the package."""
    return Path(str(files("kernelwright.agents.llm") / "prompts"))


def render(
    name: str,
    told: PromptInput,
    *,
    prompt_tokens: int | None = None,
    reserved_tokens: int = 0,
    **facts: object,
) -> Prompt:
    """Return the prompt ``name.md`` with its window filled in, within the window's budget.

    Args:
        name: Of the prompt file and of its window.
        told: What the window's sections draw on.
        prompt_tokens: What the model has room for, where that is less than the window's budget. Rules are
            then given in brief; where even that is too long, the prompt is cut.
        reserved_tokens: What else of the budget will be sent with it.
        facts: What the file asks for beyond the sections.
    """
    window = WINDOWS[name]
    budget = max(min(window.budget_tokens, prompt_tokens or window.budget_tokens) - reserved_tokens, 0)
    for rules in ("rules", "brief"):
        room = budget - estimate_tokens(_rendered(name, told, "", {**facts, "rules": rules}))
        if room >= LEAST_ROOM:
            shown = fit(sections(window, told), room)
            return _split(_rendered(name, told, shown, {**facts, "rules": rules}))
    prompt = _split(_rendered(name, told, "", {**facts, "rules": "brief"}))
    return Prompt(cut_to(prompt.system, budget // 2), cut_to(prompt.user, budget - budget // 2))


def least_tokens(name: str, target: TargetName) -> int:
    """Return about what a prompt needs: its file with the rules in brief, and some room for its sections."""
    return estimate_tokens(_with_parts(_folders(prompting_of(target)), f"{name}.md")) + LEAST_ROOM


def prompting_of(target: TargetName) -> Prompting:
    """Return what models are told of a target; raises UserError for one that they are not asked for."""
    found = target_of(target).prompting
    if found is None:
        asked = ", ".join(str(other) for other in all_targets() if other.prompting is not None)
        raise UserError(f"models are asked for kernels for {asked}; not for {str(target)!r}")
    return found


def _folders(prompting: Prompting) -> tuple[Path, ...]:
    """Return where prompt files are looked for: a target's own parts first."""
    return (*prompting.folders, prompts_folder())


def _with_parts(folders: tuple[Path, ...], file: str) -> str:
    """Return a prompt file with the files that it includes."""
    path = next(path for folder in folders if (path := folder / file).exists())
    text = path.read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: _with_parts(folders, found[1] or "brief.md"), text)


def _split(text: str) -> Prompt:
    system, _, user = text.partition(SEPARATOR)
    return Prompt(system.strip(), user.strip())


def _rendered(name: str, told: PromptInput, shown: str, facts: dict[str, object]) -> str:
    prompting = prompting_of(told.problem.target)
    return (
        _environment(_folders(prompting))
        .get_template(f"{name}.md")
        .render(
            sections=shown,
            example="example.md",
            loader_line=LOADER_LINE,
            begins=BEGINS,
            ends=ENDS,
            situation=told.situation,
            **_facts_of_target(told.problem, prompting),
            **{**facts, "rules": f"{facts['rules']}.md"},
        )
    )


def _facts_of_target(problem: Problem, prompting: Prompting) -> dict[str, object]:
    """Return what the parts of a prompt depend on."""
    target = target_of(problem.target)
    return {
        **prompting.facts,
        "target": str(target),
        "device_title": target.device.title,
        "language_name": prompting.language,
        "has_loader": target.loader is not None,
        "hot_spot": prompting.hot_spot,
        "causes": prompting.causes,
        "advice": prompting.advice,
        "may_round": problem.task.tolerance.may_round,
    }


@cache
def _environment(folders: tuple[Path, ...]) -> Environment:
    return Environment(
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
