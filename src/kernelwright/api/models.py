"""The models of a team, made ready before anything starts."""

from collections.abc import Sequence

from kernelwright.agents.llm.context_check import require_room
from kernelwright.agents.llm.preflight import preflight
from kernelwright.agents.llm.prices import require_prices, with_prices
from kernelwright.agents.roles import ANCHORING
from kernelwright.agents.teams import SEATS, model_seats
from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings
from kernelwright.core.target import CPU_CPP, TargetName
from kernelwright.methods import find_recipe
from kernelwright.targets.registry import known_names


def check_models(models: ModelSettings | None, team: str, target: str) -> ModelSettings | None:
    """Return the models of a team, None where no seat is a model's; nobody is asked.

    Args:
        models: what the user named.
        team: who plays.
        target: decides how long the prompts are; whether there is such a target is not looked at here.

    Raises:
        UserError: an unknown team or role, a model for nobody, none where one is needed, or no room for
            the prompts.
    """
    seats = model_seats(team)
    if not seats:
        if models is not None:
            raise UserError(f"the team {team!r} has no seat for a model; give --team llm, or one seat of it")
        return None
    if models is None:
        raise UserError(f"the team {team!r} needs a model: give --model PROVIDER:NAME, e.g. openai:gpt-5")
    unknown = [role for role in models.roles if role not in SEATS]
    if unknown:
        raise UserError(f"--role-model: no role {unknown[0]!r}; roles: {', '.join(SEATS)}")
    require_room(models, seats, TargetName.parse(target) if target in known_names() else CPU_CPP)
    return models


def ready_models(
    models: ModelSettings | None, team: str, recipes: Sequence[str], usd: float | None
) -> ModelSettings | None:
    """Return the models with today's prices, after one tiny request to each as it will be asked.

    Args:
        models: as ``check_models`` returns them.
        team: whose seats are asked.
        recipes: their temperatures count for roles to which the user gave none.
        usd: the budget.

    Raises:
        UserError: no key, a wrong one, no such model, no server, a budget in USD for a model of unknown
            price, or a model that nobody would ask.
    """
    if models is None:
        return None
    _require_planner(models, team, recipes)
    require_prices(models, Budget(usd=usd))
    return with_prices(preflight(models, temperatures=[_temperatures(recipe, team) for recipe in recipes]))


def _require_planner(models: ModelSettings, team: str, recipes: Sequence[str]) -> None:
    """Raise UserError for a model of the Planner's where the Coder's gives plan and kernel in one answer."""
    is_merged = models.calls == "merged" and {"planner", "coder"} <= model_seats(team)
    if "planner" not in models.roles or not is_merged:
        return
    steps = [step for recipe in recipes for step in find_recipe(recipe).pipelines.values()]
    if not any(ANCHORING in step.seats for step in steps):
        raise UserError(
            "--role-model planner: plan and kernel are one answer, which the coder's model gives; add "
            "--calls separate, or name the model for coder"
        )


def _temperatures(recipe: str, team: str) -> dict[str, float]:
    """Return a recipe's temperatures for the seats that are a model's."""
    seats = model_seats(team)
    return {role: degrees for role, degrees in find_recipe(recipe).temperatures.items() if role in seats}
