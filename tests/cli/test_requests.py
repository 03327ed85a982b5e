"""From a request to a command line and back: the same request, whatever it is."""

import shlex
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.requests import EVERY
from typer.main import get_command

from kernelwright.cli import main, options
from kernelwright.core.options import OPTIONS
from kernelwright.core.places import AtPath
from kernelwright.core.request import REQUESTS, BenchRequest, Request, RunRequest
from kernelwright.core.request_words import options_of
from kernelwright.settings import Settings

PROGRAM: Any = get_command(main.make_app())
KINDS = {request.command: request for request in REQUESTS}


def parsed(words: list[str]) -> Request:
    """Return the request that the program makes of a command line; nothing is configured."""
    command, rest = PROGRAM.commands[words[0]], list(words[1:])
    name = words[0]
    if name not in KINDS:
        name, command = f"{name} {rest[0]}", command.commands[rest.pop(0)]
    context = command.make_context(name, rest)
    keys = {option.key for option in options_of(KINDS[name])}
    values = {key: value for key, value in context.params.items() if key in keys}
    return options._request(KINDS[name], values)


@pytest.fixture(autouse=True)
def nothing_is_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    none = Settings(cache_dir=tmp_path, data_dir=tmp_path, store="")
    monkeypatch.setattr(options, "load_settings", lambda: none)


@pytest.mark.parametrize("command", EVERY)
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_a_command_line_says_the_whole_request(command: str, data: st.DataObject) -> None:
    request = data.draw(EVERY[command])
    assert parsed(request.words()) == request
    assert parsed(shlex.split(request.command_line())[1:]) == request


def test_every_field_of_every_request_is_said_by_an_option() -> None:
    for request in REQUESTS:
        said = {option.group for option in options_of(request)}
        assert said == set(request.model_fields), request.command
        drawn = EVERY[request.command]
        assert drawn is not None


def test_no_option_is_for_a_command_that_there_is_not() -> None:
    for option in OPTIONS:
        assert set(option.only) <= set(KINDS), option.flag
        assert any(option in list(options_of(request)) for request in REQUESTS), option.flag


def test_a_password_of_a_store_is_never_printed() -> None:
    for store in ("postgresql://me:secret@host/db", "postgresql://host/db?user=me&password=secret"):
        line = RunRequest(task=AtPath(path="a.py"), store=store).command_line()
        assert "secret" not in line and '--store "$KERNELWRIGHT_STORE"' in line


def test_what_looks_like_another_word_stays_a_path() -> None:
    for path in ("suite", "suite:x", "text:a:b", "-x.py", "saved:y"):
        request = BenchRequest(sources=(AtPath(path=path),))
        assert str(request.sources[0]) == f"./{path}"
        assert parsed(request.words()) == request


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["optimize", "a.py", "--temperature", "0.5"],
            "--temperature is about a model: name it",
        ),
        (["optimize", "a.py", "--model", "gpt"], "provider:name"),
        (["optimize", "a.py", "--model", "a:b", "--role-model", "coder"], "--role-model 'coder': expected"),
        (["optimize", "a.py", "--model", "a:b", "--role-model", "coder=@x"], "--role-model 'coder=@x'"),
        (["optimize", "a.py", "--model", "a:b", "--role-model", "coder=;price=1"], "--role-model"),
        (["optimize", "a.py", "--model", "a:b", "--price", "free"], "--price 'free'"),
        (["optimize", "text:"], "names no task"),
        (["bench", "--group", "main"], "--tasks"),
        (["bench", "--name", "a", "--resume", "b"], "different experiments"),
    ],
)
def test_words_that_make_no_request_are_one_line(cli: Any, words: list[str], said: str) -> None:
    result = cli(*words)
    assert (result.code, result.out) == (2, "")
    assert said in result.err and len(result.err.strip().splitlines()) == 1
