"""Options that say which language models play, and how their text becomes our nouns."""

from typing import Annotated

import typer

from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings, RoleModel

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
    str | None,
    typer.Option(
        "--price",
        metavar="INPUT,OUTPUT",
        help="US dollars per million tokens, where no list knows the model.",
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
    price: str | None,
) -> ModelSettings | None:
    """Return the models of a team, None where no seat is a model's; raises UserError for what cannot be."""
    # lazy: loads torch
    from kernelwright.agents.teams import needs_model

    if not needs_model(team):
        if model or role_models:
            raise UserError(f"the team {team!r} has no seat for a model; give --team llm, or one seat of it")
        return None
    if model is None:
        raise UserError(f"the team {team!r} needs a model: give --model PROVIDER:NAME, e.g. openai:gpt-5")
    per_input, per_output = parse_price(price)
    settings = ModelSettings(
        model=model,
        base_url=base_url,
        temperature=temperature,
        context_tokens=context_tokens,
        roles=dict(parse_role_model(text) for text in role_models or []),
        usd_per_million_input=per_input,
        usd_per_million_output=per_output,
    )
    if max_output_tokens is not None:
        settings = settings.model_copy(update={"max_output_tokens": max_output_tokens})
    settings.prompt_tokens()  # raises while nothing has begun
    return settings


def checked(models: ModelSettings | None, *, usd: float | None = None) -> ModelSettings | None:
    """Return the settings with today's prices, after one tiny request to each model.

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
    preflight(models)
    return with_prices(models)


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


def parse_price(text: str | None) -> tuple[float | None, float | None]:
    """Parse ``input,output``; raises UserError."""
    if text is None:
        return None, None
    try:
        per_input, per_output = (float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--price {text!r}: expected two numbers such as 1.25,10") from None
    return per_input, per_output
