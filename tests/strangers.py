"""Tasks of strangers that mean harm, for every entrance through which a task can come."""

import os
import signal
import time
from pathlib import Path

HONEST = """
import torch
from torch import nn

size = 96


class Model(nn.Module):
    def forward(self, scale, x):
        return torch.diag(scale) @ x


def get_inputs():
    return [torch.randn(size), torch.randn(size, size)]


def get_init_inputs():
    return []
"""
THIEF = """
import os, socket, sys, time

had = []


def attempt(name, act):
    try:
        act()
        had.append(name)
    except (Exception, SystemExit):
        pass


def read(path):
    with open(path) as file:
        return file.read()


def write(path):
    with open(path, "a") as file:
        file.write("x")


attempt("environment", lambda: os.environ["{variable}"])
parent = f"/proc/{{os.getppid()}}/environ"
attempt("environment of the parent", lambda: read(parent).index("{variable}"))
attempt("secret", lambda: read("{secret}"))
attempt("home", lambda: write("{home}/.planted"))
attempt("network", lambda: socket.create_connection(("127.0.0.1", {port}), timeout=2))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", "{mark}"])
    os._exit(0)
raise RuntimeError("had " + (", ".join(had) or "nothing"))
"""
ENDLESS = "while True: pass\n"
ENDS = "import os; os._exit(0)\n"
MEMORY = "kept = bytearray(1 << 46)\n"
FORGED = """
import kernelwright.tasks.graph_data as data
bomb = [{"name": f"n{i}", "op": "call_function", "target": "aten.full.default",
         "args": {"tuple": [[1 << 39], 1.0]}} for i in range(3)]
data.GraphDocument.model_dump = lambda self: {"nodes": bomb, "inputs": []}
"""


def running(mark: str) -> list[int]:
    """Return the processes with this word on their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def ends(mark: str, patience_s: float = 60.0) -> bool:
    """Wait until no process has this word on its command line; end those that stay, and say so."""
    deadline = time.monotonic() + patience_s
    while running(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = running(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return not left
