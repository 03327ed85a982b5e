"""The address that is announced is one that can be called."""

import pytest

from kernelwright.cli.listening import callable_url


@pytest.mark.parametrize(
    ("url", "names", "expected"),
    [
        ("http://127.0.0.1:8789", [], "http://127.0.0.1:8789"),
        ("http://10.0.0.5:8789", [], "http://10.0.0.5:8789"),
        ("http://0.0.0.0:8789", ["box.example", "box"], "http://box.example:8789"),
        ("http://0.0.0.0:8788/mcp", ["10.0.0.5"], "http://10.0.0.5:8788/mcp"),
    ],
)
def test_it_is_a_name_that_is_answered_under(
    url: str, names: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable_url(url, names) == expected
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://0.0.0.0:8788/mcp", "http://127.0.0.1:8788/mcp"), ("http://[::]:8789", "http://[::1]:8789")],
)
def test_without_a_name_for_others_that_is_said_in_one_line(
    url: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable_url(url, []) == expected
    (line,) = capsys.readouterr().err.splitlines()
    assert "--allow-host NAME" in line
