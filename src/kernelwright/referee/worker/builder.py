"""Runs a compiler inside the sandbox: the compiler is trusted, but the source that it reads is not."""

import os
import resource
import socket
import subprocess
from pathlib import Path
from typing import Any

from kernelwright.referee.worker import wire
from kernelwright.referee.worker.wire import Message

LOG_BYTES = 200_000
"""How much of the compiler's output is kept, from the beginning: the first error is there."""


def main(sock: socket.socket) -> None:
    """Serve until the parent hangs up."""
    while True:
        try:
            message, fds = wire.receive_with_fds(sock)
            try:
                answer = _compile(message, fds[0])
            except (OSError, ValueError) as error:
                answer = {"error": type(error).__name__, "message": str(error), "traceback": ""}
            finally:
                for fd in fds:
                    os.close(fd)
            wire.send(sock, {**answer, wire.NONCE: message.get(wire.NONCE)})
        except wire.Closed:
            return


def _compile(message: Message, results: int) -> Message:
    """Write the sources, run the command on them and copy the files it made into the given memory."""
    for name, text in message["sources"].items():
        Path(name).write_text(text, encoding="utf-8")
    ceiling = message["address_space_bytes"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))

    with open("compiler.log", "wb+") as log:
        code = subprocess.run(
            message["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
            preexec_fn=limit,
            check=False,
        ).returncode
        log.seek(0)
        words = log.read(LOG_BYTES).decode(errors="replace")
    made: dict[str, Any] = {}
    offset, room = 0, message["sizes"][0]
    for name in message["results"]:
        data = Path(name).read_bytes() if Path(name).is_file() else None
        if data is None:
            continue
        if offset + len(data) > room:
            log_line = f"error: {name}: {len(data)} bytes are more than a build may return"
            return {"exit_code": 1, "log": f"{words}\n{log_line}", "made": {}}
        os.pwrite(results, data, offset)
        made[name] = [offset, len(data)]
        offset += len(data)
    return {"exit_code": code, "log": words, "made": made}
