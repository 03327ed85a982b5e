"""Requests as words of a command line and as configured values, by the table in ``core/options.py``."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen
from kernelwright.core.model_words import model_values, models_from
from kernelwright.core.options import OPTIONS, Option


class Worded(Frozen):
    """What a command line can say."""

    command: ClassVar[str]
    """The command that takes it."""

    def words(self) -> list[str]:
        """Return the command's words that ask for the same again; a store's address is not hidden."""
        return [*self.command.split(), *words_of(self)]

    def command_line(self) -> str:
        """Return the command that asks for the same again, as a line for a shell.

        Keys come from the environment, as they did; a store's address with a password is left to the
        environment as well.
        """
        return shown(["kernelwright", *self.words()])


AnyRequest = TypeVar("AnyRequest", bound=Worded)
MODELS, BUDGET = "models", "budget"
_PASSWORD = re.compile(r"://.*:.*@|[?&][^=]*(password|passwd|pwd|secret|token)[^=]*=", re.IGNORECASE)


def options_of(request: type[Worded]) -> Iterator[Option]:
    """Yield a request's options in the order of the table."""
    for option in OPTIONS:
        has_field = option.group in request.model_fields
        if request.command in option.only if option.only else has_field:
            yield option


def find_option(flag: str) -> Option:
    """Return the first option with this flag."""
    return next(option for option in OPTIONS if option.flag == flag)


def words_of(request: Worded) -> list[str]:
    """Return the words that ``read_words`` makes the same request of."""
    words: list[str] = []
    for option in options_of(type(request)):
        values = _said(request, option)
        if option.kind is bool:
            words += [option.flag] if values and getattr(request, option.group) is not option.is_off else []
        elif option.is_argument:
            words += values
        else:
            for value in values:
                words += [f"{option.flag}={value}"] if value.startswith("-") else [option.flag, value]
    return words


def _said(request: Worded, option: Option) -> list[str]:
    """Return what is to be said of an option, a word for each time; none where the default says it."""
    group, part = option.group, option.part
    value = getattr(request, group)
    if group == MODELS:
        return [] if value is None else model_values(value).get(part, [])
    if group == BUDGET:
        value = getattr(value, part)
        return [] if value is None else [option.show(value)]
    default = type(request).model_fields[group].default
    if (value == default and not option.is_always_said and not option.is_argument) or value is None:
        return []
    return [option.show(one) for one in value] if option.many else [option.show(value)]


def read_values(request: type[AnyRequest], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that values say something of, by name.

    Args:
        request: what kind of request.
        values: by ``Option.key``, as the command line or a configuration gives them: text, numbers, switches
            and lists of these. None, an empty list and a switch that is off say nothing.

    Raises:
        UserError: a value is none that the option takes.
    """
    fields: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {MODELS: {}, BUDGET: {}}
    for option in options_of(request):
        value = values.get(option.key)
        if value is None or value == [] or value is False:
            continue
        group, part = option.group, option.part
        if part:
            groups[group][part] = value
        elif option.kind is bool:
            fields[group] = not option.is_off
        else:
            fields[group] = tuple(map(option.parse, value)) if option.many else option.parse(value)
    if groups[BUDGET]:
        fields[BUDGET] = Budget(**groups[BUDGET])
    if groups[MODELS]:
        fields[MODELS] = models_from(groups[MODELS])
    return fields


def defaults_for(
    request: type[Worded], defaults: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the configured values, by ``Option.key``, that a request takes where none are given.

    Which model to ask is of no account to a team without one.
    """
    team = given.get("team") or given.get("teams") or defaults.get("team") or "expert"
    has_model = asks_models(team if isinstance(team, str) else ",".join(team))
    return {
        option.key: defaults[option.key]
        for option in options_of(request)
        if option.is_configurable and option.key in defaults
        and (has_model or not option.field.startswith(f"{MODELS}."))
    }  # fmt: skip


def make_request(request: type[AnyRequest], fields: Mapping[str, Any]) -> AnyRequest:
    """Return the request; raises UserError, in one line, where a field cannot be as it is."""
    try:
        return request(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        flags = [o.flag for o in options_of(request) if o.field == name or o.field.startswith(f"{name}.")]
        raise UserError(
            f"{flags[0] if flags else name}: {first['msg']} (given: {first['input']!r})"
        ) from None


def asks_models(team: str) -> bool:
    """Tell whether a team's name, or one of several with commas between them, gives a model a seat."""
    return "llm" in re.split(r"[+=,\s]+", team)


def shown(words: Iterable[str]) -> str:
    """Return a command as a line for a shell; the environment names a store whose address has a password."""
    said, before = [], ""
    for word in words:
        is_secret = before == "--store" and _PASSWORD.search(word)
        said.append('"$KERNELWRIGHT_STORE"' if is_secret else shlex.quote(word))
        before = word
    return " ".join(said)
