"""Who is let in, and with what a service may start."""

import pytest

from kernelwright.core.errors import UserError
from kernelwright.remote.access import host_of, is_own_host_header, matches, require_loopback, require_token

TOKEN = "sixteen-characters-and-more"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (None, "X is not set"),
        ("short", "fewer than 16 characters"),
        ("with a space in its midst", "no header can carry"),
        ("with-a-newline-at-the-end\n", "no header can carry"),
        ("with-an-umlaut-\xfc-within", "no header can carry"),
    ],
)
def test_a_weak_token_is_refused_and_not_repeated(token: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        require_token(token, "X")
    assert token is None or token not in str(caught.value)
    assert "token_urlsafe" in str(caught.value)


def test_a_good_token_is_taken_and_matched() -> None:
    assert require_token(TOKEN, "X") == TOKEN
    assert matches(f"Bearer {TOKEN}", TOKEN) and matches(f"bearer  {TOKEN} ", TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.9.1"])
def test_loopback_may_do_without(host: str) -> None:
    require_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", ""])
def test_nothing_else_may(host: str) -> None:
    with pytest.raises(UserError, match="--no-token is refused"):
        require_loopback(host)


@pytest.mark.parametrize(
    ("header", "is_own"),
    [
        ("127.0.0.1:8787", True),
        ("localhost", True),
        ("[::1]:8787", True),
        ("", False),
        ("evil.example:8787", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example#127.0.0.1", False),
        ("[::1", False),
    ],
)
def test_a_rebound_name_is_not_this_machine(header: str, is_own: bool) -> None:
    assert is_own_host_header(header) is is_own


@pytest.mark.parametrize(
    "header",
    ["evil.example@127.0.0.1", "127.0.0.1/evil.example", "127.0.0.1 ", "127.0.0.1:x", "[::1", "127.0.0.1?a"],
)
def test_a_host_header_of_another_form_names_nobody(header: str) -> None:
    assert host_of(header) == "" and not is_own_host_header(header)
