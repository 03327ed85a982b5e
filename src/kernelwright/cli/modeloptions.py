"""Options that say which language models play, and how their text becomes our nouns."""

import math
from collections.abc import Sequence
from typing import Annotated

import typer

from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings, RoleModel
from kernelwright.core.target import CPU_CPP, TargetName

PANEL = "Language models"

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PROVIDER:NAME",
        help="Model of every seat that is a model's, e.g. openai:gpt-5. Keys come from the environment.",
        rich_help_panel=PANEL,
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        help="A server that speaks OpenAI's protocol, or Anthropic's; key: KERNELWRIGHT_API_KEY.",
        rich_help_panel=PANEL,
    ),
]
RoleModels = Annotated[
    list[str] | None,
    typer.Option(
        "--role-model",
        metavar="ROLE=[PROVIDER:NAME][@TEMPERATURE]",
        help="Another model, or temperature, for one role. Repeatable.",
        rich_help_panel=PANEL,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        min=0.0,
        help="Temperature of every role.",
        show_default="the server's",
        rich_help_panel=PANEL,
    ),
]
MaxOutputTokens = Annotated[
    int | None,
    typer.Option(
        "--max-output-tokens",
        min=16,
        help="Tokens of one answer at most.",
        show_default="8192",
        rich_help_panel=PANEL,
    ),
]
ContextTokens = Annotated[
    int | None,
    typer.Option(
        "--context-tokens",
        min=512,
        help="The model's context, answers included, where it is small: prompts are cut to fit.",
        rich_help_panel=PANEL,
    ),
]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        metavar="[PROVIDER:NAME=]INPUT,OUTPUT",
        help="US dollars per million tokens, where no list knows the model. Repeatable.",
        rich_help_panel=PANEL,
    ),
]
BudgetCalls = Annotated[
    int | None,
    typer.Option("--budget-calls", min=1, help="Requests to models at most.", rich_help_panel=PANEL),
]
BudgetTokens = Annotated[
    int | None,
    typer.Option("--budget-tokens", min=1, help="Tokens in and out at most.", rich_help_panel=PANEL),
]
BudgetUsd = Annotated[
    float | None, typer.Option("--budget-usd", min=0.0, help="US dollars at most.", rich_help_panel=PANEL)
]


def make_models(
    team: str,
    *,
    model: str | None,
    base_url: str | None,
    role_models: list[str] | None,
    temperature: float | None,
    max_output_tokens: int | None,
    context_tokens: int | None,
    price: list[str] | None,
    target: str = "cpu/cpp",
) -> ModelSettings | None:
    """Return the models of a team, None where no seat is a model's; raises UserError for what cannot be.

    ``target`` decides how long the prompts are; whether there is such a target is not looked at here.
    """
    # lazy: loads torch
    from kernelwright.agents.teams import model_seats

    seats = model_seats(team)
    if not seats:
        if model or role_models:
            raise UserError(f"the team {team!r} has no seat for a model; give --team llm, or one seat of it")
        return None
    if model is None:
        raise UserError(f"the team {team!r} needs a model: give --model PROVIDER:NAME, e.g. openai:gpt-5")
    settings = ModelSettings(
        model=model,
        base_url=base_url,
        temperature=temperature,
        context_tokens=context_tokens,
        roles=dict(parse_role_model(text) for text in role_models or []),
    )
    for text in price or []:
        settings = with_price(settings, text)
    if max_output_tokens is not None:
        settings = settings.model_copy(update={"max_output_tokens": max_output_tokens})
    # lazy: reads the prompts
    from kernelwright.agents.llm.context_check import require_room
    from kernelwright.targets.registry import known_names

    require_room(settings, seats, TargetName.parse(target) if target in known_names() else CPU_CPP)
    return settings


def checked(
    models: ModelSettings | None, *, team: str, recipes: Sequence[str], usd: float | None = None
) -> ModelSettings | None:
    """Return the settings with today's prices, after one tiny request to each model as it will be asked.

    Args:
        models: None where no seat is a model's.
        team: Whose seats are asked.
        recipes: Their temperatures count for roles to which the user gave none.
        usd: The budget.

    Raises:
        UserError: no key, a wrong one, no such model, no server, or a budget in USD for a model of unknown
            price: in one line, before anything starts.
    """
    if models is None:
        return None
    # lazy: loads a model SDK
    from kernelwright.agents.llm.preflight import preflight
    from kernelwright.agents.llm.prices import require_prices, with_prices

    require_prices(models, Budget(usd=usd))
    preflight(models, temperatures=[_temperatures(recipe, team) for recipe in recipes])
    return with_prices(models)


def _temperatures(recipe: str, team: str) -> dict[str, float]:
    """Return a recipe's temperatures for the seats that are a model's."""
    # lazy: loads torch
    from kernelwright.agents.teams import model_seats
    from kernelwright.methods import find_recipe

    seats = model_seats(team)
    return {role: degrees for role, degrees in find_recipe(recipe).temperatures.items() if role in seats}


def parse_role_model(text: str) -> tuple[str, RoleModel]:
    """Parse ``role=provider:name@temperature``, either part left out; raises UserError.

    Example:
        >>> parse_role_model("planner=openai:gpt-5@0.8")[1].temperature
        0.8
    """
    role, equals, rest = text.partition("=")
    model, at, degrees = rest.rpartition("@") if "@" in rest else (rest, "", "")
    problem = (
        f"--role-model {text!r}: expected ROLE=PROVIDER:NAME@TEMPERATURE, such as planner=openai:gpt-5@0.8"
    )
    if not role or not equals or not rest:
        raise UserError(problem)
    # lazy: loads torch
    from kernelwright.agents.teams import SEATS

    if role.strip() not in SEATS:
        raise UserError(f"--role-model {text!r}: no role {role.strip()!r}; roles: {', '.join(SEATS)}")
    try:
        temperature = float(degrees) if at else None
    except ValueError:
        raise UserError(problem) from None
    return role.strip(), RoleModel(model=model or None, temperature=temperature)


def with_price(settings: ModelSettings, text: str) -> ModelSettings:
    """Return the settings with a price as ``parse_price`` reads it; raises UserError for an unknown model."""
    model, price = parse_price(text)
    update = {"usd_per_million_input": price[0], "usd_per_million_output": price[1]}
    if model in (None, settings.model):
        return settings.model_copy(update=update)
    asking = {role: own for role, own in settings.roles.items() if own.model == model}
    if not asking:
        known = ", ".join(dict.fromkeys(choice.model for choice in settings.choices()))
        raise UserError(f"--price {text!r}: no role asks {model}; models: {known}")
    priced = {role: own.model_copy(update=update) for role, own in asking.items()}
    return settings.model_copy(update={"roles": {**settings.roles, **priced}})


def parse_price(text: str) -> tuple[str | None, tuple[float, float]]:
    """Parse ``provider:name=input,output``, the model left out for the default one; raises UserError.

    Example:
        >>> parse_price("openai:mine=0.5,2")
        ('openai:mine', (0.5, 2.0))
    """
    model, _, numbers = text.rpartition("=")
    try:
        per_input, per_output = (float(part) for part in numbers.split(","))
    except ValueError:
        per_input = per_output = math.nan
    if not (0 <= per_input < math.inf and 0 <= per_output < math.inf):
        raise UserError(f"--price {text!r}: expected two numbers such as 1.25,10 or openai:mine=1.25,10")
    return model or None, (per_input, per_output)
