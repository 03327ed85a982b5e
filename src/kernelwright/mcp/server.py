"""The server: what it offers, and how it is carried to stdio or to a socket."""

import socket
from collections.abc import Callable, Collection
from typing import Any

import anyio
from pydantic import ValidationError

from kernelwright.core.errors import missing
from kernelwright.core.version import __version__
from kernelwright.mcp.prompts import add_prompts
from kernelwright.mcp.resources import add_resources
from kernelwright.mcp.tools import CORRECT, add_tools
from kernelwright.mcp.workers import Workers
from kernelwright.remote.lines import first_fault
from kernelwright.settings import Settings

try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.types import CallToolResult, InputRequiredResult
except ImportError as error:
    raise missing(error, "mcp") from error

# after the message about the missing extra
from kernelwright.remote.gate import AccessGate
from kernelwright.remote.server import serve_http

MAX_BYTES = 4_000_000
"""Size of one request over HTTP; ours."""
INSTRUCTIONS = (
    "Kernelwright makes PyTorch modules faster and proves that they compute the same. A task is the source "
    "text of a KernelBench-format file (Model, get_inputs, get_init_inputs), a kernel that of a file with "
    "ModelNew. The loop: check_task once; lower_plan without moves, or your own source, for a first kernel; "
    "evaluate; diagnose for the bottleneck and the skills that answer it; skill_read; change one thing; "
    "evaluate again. optimize runs the whole loop for you. Only the referee's verdict counts: trust no "
    "figure that evaluate, compare_kernels, diagnose or optimize did not give. kernelwright://docs/skill has "
    "more."
)


class _ToolServer(MCPServer[Any]):
    """Tells a caller whose arguments do not fit which one, and what to do next, in one line."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """See MCPServer."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(error, UnexpectedToolError) or not isinstance(cause, ValidationError):
                raise
            raise ToolError(f"{name}: {first_fault(cause)}. {CORRECT}") from cause


def make_server(settings: Settings) -> MCPServer[Any]:
    """Return the server with everything that it offers."""
    server = _ToolServer(
        "kernelwright",
        title="Kernelwright",
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
    )
    add_tools(server, Workers(settings))
    add_resources(server, settings)
    add_prompts(server)
    return server


def serve_stdio(settings: Settings) -> None:
    """Answer the program that started this one, until it closes stdin."""
    anyio.run(make_server(settings).run_stdio_async)


def serve_socket(
    settings: Settings,
    sock: socket.socket,
    *,
    token: str | None,
    hosts: Collection[str],
    on_start: Callable[[str], None],
) -> None:
    """Answer over streamable HTTP at /mcp until SIGTERM or SIGINT."""
    off = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # AccessGate does it
    app = make_server(settings).streamable_http_app(max_request_body_size=MAX_BYTES, transport_security=off)
    app.add_middleware(AccessGate, token=token, hosts=hosts)
    app.state.stop = lambda: None
    serve_http(app, sock, lambda url: on_start(f"{url}/mcp"))
