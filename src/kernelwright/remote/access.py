"""Who may ask: one bearer token, or nobody but programs on this machine."""

import hmac
import re
import string

from kernelwright.core.errors import UserError
from kernelwright.core.hosts import is_loopback

MIN_TOKEN = 16
"""Characters; ours. A shorter one could be guessed by trying."""
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_ALLOWED = frozenset(string.ascii_letters + string.digits + string.punctuation)


def require_token(
    token: str | None, variable: str, waiver: str = ", or use --no-token on a loopback address"
) -> str:
    """Return the token that a service may start with; raises UserError when there is none or it is weak.

    ``waiver`` ends the line where there is none: how to do without.
    """
    advice = "make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
    if token is None:
        raise UserError(f"{variable} is not set; {advice}{waiver}")
    if len(token) < MIN_TOKEN:
        raise UserError(f"the token in {variable} has fewer than {MIN_TOKEN} characters; {advice}")
    if not set(token) <= _ALLOWED:
        raise UserError(f"the token in {variable} has characters that no header can carry; {advice}")
    return token


def require_loopback(host: str) -> None:
    """Raise UserError unless the address can be reached from this machine only."""
    if not is_loopback(host):
        raise UserError(f"--no-token is refused on {host}: set a token, or listen on 127.0.0.1")


def host_of(header: str) -> str:
    """Return the name in ``HOST`` or ``HOST:PORT`` in small letters; empty where it is written otherwise."""
    found = _HOST.fullmatch(header)
    return found[1].strip("[]").lower() if found else ""


def is_own_host_header(header: str) -> bool:
    """Say whether a Host header names this machine; a web page that was rebound to it names its own site."""
    return is_loopback(host_of(header))


def matches(header: str, token: str) -> bool:
    """Compare an Authorization header with the token, in a time that does not depend on where they differ."""
    scheme, _, given = header.partition(" ")
    is_bearer = scheme.lower() == "bearer"
    return hmac.compare_digest(given.strip().encode(), token.encode()) and is_bearer
