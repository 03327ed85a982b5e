"""``kernelwright mcp``: referee, expert, skills and memory as tools for coding agents."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.listening import callable_url
from kernelwright.cli.options import AsJson, RequireSandbox
from kernelwright.cli.output import print_json, say
from kernelwright.core.errors import UserError
from kernelwright.core.version import __version__
from kernelwright.remote.access import require_loopback, require_token
from kernelwright.settings import Settings, load_secret, load_settings

TOKEN_VARIABLE = "KERNELWRIGHT_MCP_TOKEN"
"""Names the bearer token of the server."""


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Answer over HTTP at /mcp; default: over stdin and stdout.")
    ] = False,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8788,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Further name of this machine. Repeatable."),
    ] = None,
    token_env: Annotated[
        str, typer.Option("--token-env", metavar="NAME", help="Environment variable with the bearer token.")
    ] = TOKEN_VARIABLE,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Anyone on this machine may ask; loopback only.")
    ] = False,
    install_skill: Annotated[
        Path | None,
        typer.Option(
            "--install-skill", metavar="FOLDER", help="Copy the skill for agents to FOLDER and end."
        ),
    ] = None,
    require_sandbox: RequireSandbox = None,
    as_json: AsJson = False,
) -> None:
    """Offer referee, expert, skills and memory to a coding agent, as tools; see docs/mcp.md.

    Who may call the tools can run code on this machine, confined as for evaluate.
    """
    if install_skill is not None:
        _install(install_skill, as_json=as_json)
        return
    # lazy: needs the packages of the extra "mcp"
    from kernelwright.mcp.server import serve_socket, serve_stdio

    where = _settings(require_sandbox)
    if not http:
        serve_stdio(where)
        return
    token = None if no_token else require_token(load_secret(token_env), token_env)
    if no_token:
        require_loopback(host)
    # lazy: as above
    from kernelwright.remote.server import listen

    by = "no token" if no_token else f"the token in {token_env}"

    def announce(url: str) -> None:
        url = callable_url(url, allow_host or ())
        say(f"serving on {url} with {by}; end with Ctrl-C")
        if as_json:
            print_json({"serving": url, "version": __version__})

    with listen(host, port) as sock:
        serve_socket(where, sock, token=token, hosts=(host, *(allow_host or ())), on_start=announce)
    say("ended")


def _settings(require_sandbox: str | None) -> Settings:
    """Return the settings with the sandbox that is required, which is there."""
    where = load_settings()
    wanted = require_sandbox or where.require_sandbox
    if wanted is not None:
        # lazy: probes the sandbox
        from kernelwright.referee.sandbox import choose

        choose.require(choose.probe(), wanted)
    return replace(where, require_sandbox=wanted)


def _install(folder: Path, *, as_json: bool) -> None:
    """Copy the folder with SKILL.md; raises UserError where that cannot be written."""
    # lazy: needs the packages of the extra "mcp"
    from kernelwright.mcp.resources import guide_folder

    place = folder / "kernelwright"
    try:
        shutil.copytree(guide_folder(), place, dirs_exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {place}: {error.strerror}; name another folder") from error
    say(f"the skill is in {place}")
    if as_json:
        print_json({"skill": place})
