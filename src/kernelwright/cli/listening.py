"""What a command says of the address that it listens on."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from kernelwright.cli.output import say
from kernelwright.core.hosts import is_everywhere


def callable_url(url: str, names: Sequence[str]) -> str:
    """Return the address to call a server by: it answers under loopback names, and under ``names``.

    Where it listens on every address and has no name for others, a line says what these need.
    """
    place = urlsplit(url)
    host = place.hostname or ""
    if not is_everywhere(host):
        return url
    if not names:
        say("callers elsewhere are refused (421) until --allow-host NAME gives the name that they call it by")
    name = names[0] if names else "::1" if ":" in host else "127.0.0.1"
    shown = f"[{name}]" if ":" in name else name
    return place._replace(netloc=f"{shown}:{place.port}").geturl()
