"""Models, roles and prices as words of a command line."""

import math
import re
from collections.abc import Mapping
from typing import Any

from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings, RoleModel

PLAIN = (
    "base_url",
    "temperature",
    "max_output_tokens",
    "effort",
    "context_tokens",
    "kernels_per_call",
    "concurrency",
    "tool_calls",
    "output_mode",
    "calls",
    "stream",
    "timeout_s",
    "max_reply_bytes",
)
"""Fields of the settings that are one word each."""
FLAGS = {"roles": "--role-model", "timeout_s": "--model-timeout"}
_DEGREES = re.compile(r"@[^@]*$")


def models_from(values: Mapping[str, Any]) -> ModelSettings:
    """Return the settings that these values, by field, ask for; ``roles`` and ``price`` are lists of words.

    Raises:
        UserError: no model is named, or a word is none of those that ``model_values`` gives.
    """
    if "model" not in values:
        name = next(iter(values))
        flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
        raise UserError(f"{flag} is about a model: name it with --model PROVIDER:NAME, e.g. openai:gpt-5")
    chosen = {name: values[name] for name in (*PLAIN, "instrument") if name in values}
    roles = dict(parse_role_model(text) for text in values.get("roles", ()))
    settings = ModelSettings(model=values["model"], roles=roles, **chosen)
    for text in values.get("price", ()):
        settings = with_price(settings, text)
    return settings


def model_values(models: ModelSettings) -> dict[str, list[str]]:
    """Return what ``models_from`` makes the same settings of, as words by field."""
    found = {"model": [models.model]}
    for name in PLAIN:
        value = getattr(models, name)
        if value != ModelSettings.model_fields[name].default or name == "max_output_tokens":
            found[name] = [repr(value) if isinstance(value, float) else str(value)]
    if models.instrument:
        found["instrument"] = [""]
    found["roles"] = [_role_word(role, own) for role, own in models.roles.items()]
    if models.usd_per_million_input is not None:
        found["price"] = [f"{_number(models.usd_per_million_input)},{_number(models.usd_per_million_output)}"]
    return found


def require_words(models: ModelSettings) -> None:
    """Raise UserError where a role or a price is one that no word says."""
    priced: tuple[ModelSettings | RoleModel, ...] = (models, *models.roles.values())
    for own in priced:
        if (own.usd_per_million_input is None) != (own.usd_per_million_output is None):
            raise UserError(f"the price of {own.model or 'a role'} is half said: give input and output")
    for role, asked in models.roles.items():
        if parse_role_model(_role_word(role, asked)) != (role, asked):
            raise UserError(f"the role {role!r} has a name or a model that no command line can say: {asked}")


def _number(value: float | None) -> str:
    """Return a number as short as it can be without becoming another one."""
    assert value is not None
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _role_word(role: str, own: RoleModel) -> str:
    model = own.model or ""
    degrees = "" if own.temperature is None else f"@{_number(own.temperature)}"
    word = f"{role}={model}{degrees or ('@' if _DEGREES.search(model) else '')}"
    if own.base_url is not None:
        word += f";base_url={own.base_url}"
    if own.max_output_tokens is not None:
        word += f";max_output_tokens={own.max_output_tokens}"
    if own.usd_per_million_input is not None:
        word += f";price={_number(own.usd_per_million_input)}/{_number(own.usd_per_million_output)}"
    return word


def parse_role_model(text: str) -> tuple[str, RoleModel]:
    """Parse ``role=provider:name@temperature``, either part left out, with more after semicolons.

    Raises:
        UserError: it is not of this form.

    Example:
        >>> parse_role_model("planner=openai:gpt-5@0.8")[1].temperature
        0.8
        >>> parse_role_model("coder=@0.1;max_output_tokens=900")[1].max_output_tokens
        900
    """
    first, *more = text.split(";")
    role, equals, rest = first.partition("=")
    problem = (
        f"--role-model {text!r}: expected ROLE=PROVIDER:NAME@TEMPERATURE, such as planner=openai:gpt-5@0.8"
    )
    if not role.strip() or not equals or not (rest or more):
        raise UserError(problem)
    model, _, degrees = rest.rpartition("@") if "@" in rest else (rest, "", "")
    own: dict[str, Any] = {"model": model or None}
    try:
        own["temperature"] = float(degrees) if degrees else None
        for part in more:
            own |= _further(part)
    except ValueError:
        raise UserError(problem) from None
    if any(isinstance(value, float) and not 0 <= value < math.inf for value in own.values()):
        raise UserError(problem)
    return role.strip(), RoleModel(**own)


def _further(part: str) -> dict[str, Any]:
    """Read one of the parts after the first semicolon; raises ValueError."""
    name, _, value = part.partition("=")
    if name == "base_url":
        return {name: value}
    if name == "max_output_tokens" and int(value) > 0:
        return {name: int(value)}
    if name == "price":
        per_input, _, per_output = value.partition("/")
        return {"usd_per_million_input": float(per_input), "usd_per_million_output": float(per_output)}
    raise ValueError(part)


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
