"""The teams by name: ``expert``, ``llm``, or one with seats of the other, e.g. ``expert+planner=llm``."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from kernelwright.agents.expert import expert_team
from kernelwright.agents.roles import Team
from kernelwright.core.errors import UserError
from kernelwright.core.models import CallMode
from kernelwright.core.target import TargetName
from kernelwright.skills.load import load_skills
from kernelwright.targets.registry import target_of

if TYPE_CHECKING:
    from kernelwright.agents.llm.client import Client
    from kernelwright.agents.llm.tools import Toolbox

EXPERT, LLM = TEAMS = ("expert", "llm")
SEATS = tuple(field.name for field in fields(Team) if field.name not in ("name", "calls"))


def find_team(
    name: str,
    client: "Client | None" = None,
    *,
    prompt_tokens: int | None = None,
    calls: CallMode = "merged",
    kernels_per_call: int = 1,
    toolbox: "Callable[[str], Toolbox | None]" = lambda role: None,
) -> Team:
    """Return a fresh team of that name.

    Args:
        name: A team, or ``TEAM+SEAT=TEAM,SEAT=TEAM...``.
        client: The line to the models, where a seat needs one.
        prompt_tokens: What the models have room for, where that is less than the windows' budgets.
        calls: Whether a plan and its kernel, a diagnosis and its repair, come in one answer.
        kernels_per_call: What one answer of a model that writes may hold.
        toolbox: By seat: what its model may call before it answers.

    Raises:
        UserError: unknown team or seat, or a model is needed and there is no client.
    """
    players = _players(name)
    skills = load_skills()
    expert = expert_team(skills)
    if LLM not in players.values():
        return expert
    if client is None:
        raise UserError(f"team {name!r} needs a language model: name one with --model PROVIDER:NAME")
    # lazy: the expert team needs none of it
    from kernelwright.agents.llm.analyst import MeasuringAnalyst
    from kernelwright.agents.llm.team import llm_team

    moves = expert.moves if players["coder"] == EXPERT else None
    models = llm_team(
        client,
        expert,
        skills=skills,
        moves=moves,
        prompt_tokens=prompt_tokens,
        toolbox=toolbox,
        is_merged=calls == "merged" and LLM == players["planner"] == players["coder"],
        is_repair_merged=calls == "merged",
        kernels_per_call=kernels_per_call,
    )
    measuring = replace(expert, analyst=MeasuringAnalyst(expert.analyst, skills))
    teams = {EXPERT: measuring, LLM: models}
    seats = {seat: getattr(teams[team], seat) for seat, team in players.items()}
    asked = {seat: n for seat, n in models.calls.items() if players[seat.partition(":")[0]] == LLM}
    return replace(expert, name=name, calls=asked, **seats)


def needs_model(name: str) -> bool:
    """Tell whether a seat of the team is a language model's; raises UserError for an unknown team or seat."""
    return bool(model_seats(name))


def model_seats(name: str) -> frozenset[str]:
    """Return a team's seats that are a language model's; raises UserError for an unknown team or seat."""
    return frozenset(seat for seat, team in _players(name).items() if team == LLM)


def check_team(name: str, target: TargetName) -> None:
    """Raise UserError for an unknown team or seat, or an expert's where only models write the language."""
    if EXPERT in _players(name).values() and target_of(target).writer is None:
        raise UserError(
            f"team {name!r}: the expert does not write for target {str(target)!r}; name a whole team of "
            "models: --team llm --model PROVIDER:NAME"
        )


def _players(name: str) -> dict[str, str]:
    """Return seat -> team."""
    base, plus, swaps = name.partition("+")
    players = dict.fromkeys(SEATS, _known(base, name))
    for swap in swaps.split(",") if plus else ():
        seat, _, team = (part.strip() for part in swap.partition("="))
        if seat not in SEATS:
            raise UserError(f"team {name!r}: no seat {seat!r}; seats: {', '.join(SEATS)}")
        players[seat] = _known(team, name)
    return players


def _known(team: str, name: str) -> str:
    if team.strip() not in TEAMS:
        where = "" if team == name else f" in {name!r}"
        known = f"known: {', '.join(TEAMS)}, mixed as in expert+planner=llm,coder=llm"
        raise UserError(f"unknown team {team!r}{where}; {known}")
    return team.strip()
