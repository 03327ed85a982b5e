"""The warm process that every worker is forked from.

Imports torch once and runs no parallel operation: a fork after the first use of OpenMP hangs forever
(libgomp's pool does not survive it). Started as ``python -m kernelwright.referee.zygote FD``.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import NoReturn

import torch  # imported here, as are inductor and the task, so that every child finds them warm
import torch._inductor.compile_fx

from kernelwright.core.task import Task
from kernelwright.referee.sandbox import Limits, confine, die_with_parent
from kernelwright.referee.worker import main as worker_main
from kernelwright.referee.worker import wire
from kernelwright.referee.worker.wire import Message


def main() -> None:
    """Answer fork and reap requests until the parent hangs up."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    wire.send(sock, {"torch": torch.__version__, "task": Task.__name__})
    handlers: dict[str, Callable[[Message, list[int]], Message]] = {"spawn": _Spawner(sock), "reap": _reap}
    while True:
        try:
            message, fds = wire.receive_with_fds(sock)
            wire.send(sock, handlers[message["op"]](message, fds))
        except wire.Closed:
            return


class _Spawner:
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def __call__(self, message: Message, fds: list[int]) -> Message:
        """Fork a child that talks over the first descriptor and logs to the second."""
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._sock.close()
            _become(message, fds, zygote)
        for fd in fds:
            os.close(fd)
        return {"pid": pid}


def _become(message: Message, fds: list[int], zygote: int) -> NoReturn:
    code = 1
    try:
        die_with_parent(zygote)
        channel, log = fds
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        confine(Limits(**message["limits"]), message["scratch"])
        sock = socket.socket(fileno=channel)
        if message["kind"] == "host":
            from kernelwright.referee.host import main as host_main

            host_main(sock)
        else:
            worker_main.main(sock)
        code = 0
    finally:
        os._exit(code)


def _reap(message: Message, fds: list[int]) -> Message:
    """Wait for a child that is dead or dying and say how it ended."""
    try:
        _, status = os.waitpid(message["pid"], 0)
    except ChildProcessError:
        return {"exit_code": None}
    return {"exit_code": os.waitstatus_to_exitcode(status)}


if __name__ == "__main__":
    main()
