"""``kernelwright dashboard``: the store as web pages."""

from typing import Annotated
from urllib.parse import quote

import typer

from kernelwright.cli.listening import callable_url
from kernelwright.cli.options import AsJson, StoreOption
from kernelwright.cli.output import print_json, say
from kernelwright.cli.stores import open_for_reading
from kernelwright.core.hosts import is_loopback
from kernelwright.core.version import __version__
from kernelwright.remote.access import require_token
from kernelwright.settings import load_secret

DASHBOARD_TOKEN_VARIABLE = "KERNELWRIGHT_DASHBOARD_TOKEN"
"""Names the token that browsers bring."""


def dashboard(
    store: StoreOption = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8789,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Further name of this machine. Repeatable."),
    ] = None,
    token_env: Annotated[
        str, typer.Option("--token-env", metavar="NAME", help="Environment variable with the token.")
    ] = DASHBOARD_TOKEN_VARIABLE,
    as_json: AsJson = False,
) -> None:
    """Show runs, kernels, model calls and machines as web pages; read-only; ends with Ctrl-C or SIGTERM.

    Beyond this machine's loopback address a token is needed; set it in the variable that --token-env names.
    """
    # lazy: needs the packages of the extra "serve"
    from kernelwright.dashboard.app import make_app
    from kernelwright.remote.server import listen, serve_http

    token = load_secret(token_env)
    if token is not None or not is_loopback(host):
        token = require_token(token, token_env, waiver="")
    app = make_app(open_for_reading(store), token=token, hosts=(host, *(allow_host or ())))

    def announce(url: str) -> None:
        url = callable_url(url, allow_host or ())
        where = f"{url}/?token={quote(token, safe='')}" if token is not None else f"{url}/"
        say(f"open {where} in a browser; end with Ctrl-C")
        if as_json:
            print_json({"serving": where, "version": __version__})

    with listen(host, port) as sock:
        serve_http(app, sock, announce)
    say("ended")
