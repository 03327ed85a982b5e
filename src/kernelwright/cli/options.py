"""Options made from the table of requests, and those few that belong to the command line alone."""

import inspect
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from kernelwright.core.options import Option
from kernelwright.core.request import Request
from kernelwright.core.request_words import (
    defaults_for,
    find_option,
    make_request,
    options_of,
    read_values,
)
from kernelwright.settings import load_settings

AnyRequest = TypeVar("AnyRequest", bound=Request)
Command = Callable[..., None]
METHODS = "{methods}"
"""Stands in a help text for the names of all methods."""

AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print exactly one JSON document on stdout.", rich_help_panel="Results"),
]


def parameter(option: Option, request: type[Request] | None = None) -> Any:
    """Return the annotation from which Typer makes an option or an argument; unset it is None."""
    kind: Any = option.kind
    if option.choices:
        kind = _choice(option)
    annotated = list[kind] if option.many else kind
    if option.is_argument:
        metavar = option.metavar or option.flag
        return Annotated[annotated if _is_needed(option, request) else annotated | None,
                         typer.Argument(metavar=metavar, help=option.help, show_default=False)]  # fmt: skip
    flags = (option.flag, *([option.short] if option.short else []))
    return Annotated[
        annotated | None,
        typer.Option(
            *flags,
            help=_help(option),
            metavar=option.metavar,
            min=option.minimum,
            rich_help_panel=option.panel,
            show_default=_default(option, request) or False,
        ),
    ]


def _help(option: Option) -> str:
    return option.help.replace(METHODS, ", ".join(_methods())) if METHODS in option.help else option.help


def _methods() -> list[str]:
    """Return the methods by their files and entry points; none is imported, so help stays quick."""
    folder = Path(__file__).parents[1] / "methods"
    own = {path.stem.replace("_", "-") for path in folder.glob("[a-z]*.py")}
    return sorted(own | {entry.name for entry in entry_points(group="kernelwright.methods")})


def _choice(option: Option) -> Any:
    from enum import StrEnum

    return StrEnum(option.key, {choice: choice for choice in option.choices})


def _default(option: Option, request: type[Request] | None) -> str | None:
    """Return the default as help shows it."""
    if option.default is not None or request is None or option.kind is bool:
        return option.default
    default = request.model_fields[option.group].default
    if "." in option.field or default in (None, ()):
        return None
    return option.show(default)


def _is_needed(option: Option, request: type[Request] | None) -> bool:
    return request is not None and request.model_fields[option.field].is_required()


def takes(request: type[AnyRequest]) -> Callable[[Callable[..., None]], Command]:
    """Decorate a command that takes ``(request, *, ...)``: its options are the request's and its own."""

    def decorate(command: Callable[..., None]) -> Command:
        options = list(options_of(request))
        own = [p for p in inspect.signature(command).parameters.values() if p.name != "request"]

        def run(**values: Any) -> None:
            kept = {parameter.name: values.pop(parameter.name) for parameter in own}
            command(_request(request, values), **kept)

        signature = [_declared(option, request) for option in options]
        signature.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
        run.__signature__ = inspect.Signature([*signature, *own])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (*signature, *own)}
        run.__doc__, run.__name__ = command.__doc__, command.__name__
        return run

    return decorate


def _declared(option: Option, request: type[Request]) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.is_argument and _is_needed(option, request) else None
    return inspect.Parameter(
        option.key,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=parameter(option, request),
    )


def _request(request: type[AnyRequest], values: dict[str, Any]) -> AnyRequest:
    """Return the request that a command line asks for; what it leaves open is configured or built in."""
    given = {key: _plain(value) for key, value in values.items() if value not in (None, [], ())}
    defaults = defaults_for(request, load_settings().defaults, given)
    return make_request(request, read_values(request, {**defaults, **given}))


def _plain(value: Any) -> Any:
    """Return choices as text, also in lists."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, str) else value


StoreOption = parameter(find_option("--store"))
EvaluatorOption = parameter(find_option("--evaluator"))
OutputOption = parameter(find_option("--output"))
ReportOption = parameter(find_option("--report"))
RequireSandbox = parameter(find_option("--require-sandbox"))
WorkloadOption = parameter(find_option("--workload"))
ModeOption = parameter(find_option("--mode"))
LibraryCallsOption = parameter(find_option("--library-calls"))
WeightsOption = parameter(find_option("--weights"))
NonfiniteOption = parameter(find_option("--nonfinite"))
PeakMemoryOption = parameter(find_option("--peak-memory"))
