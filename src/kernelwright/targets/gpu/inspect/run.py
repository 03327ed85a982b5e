"""Inspects a candidate: starts the process that builds its kernels, ends it in time, trusts it little."""

import contextlib
import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.machine.children import bare_environment
from kernelwright.targets.gpu.facts import GPUS, GpuFacts, find_gpu
from kernelwright.targets.gpu.inspect.findings import Start
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelOutcome,
    KernelReport,
)
from kernelwright.targets.gpu.limits import ARCHITECTURES, find_architecture

TIMEOUT_S = 300.0
ANSWER_BYTES = 16 << 20
LOG_BYTES = 4 << 20
LOG_TAIL = 4000
END_S = 30.0
"""For a process that was asked to end, and for the kernel to take a killed one away."""


def find_device(name: str) -> GpuFacts:
    """Return a model by its name, a driver's name for it, or an architecture's (``sm_90``: its first model).

    Raises:
        UserError: none of them.
    """
    architecture = name if name in ARCHITECTURES else ""
    try:
        if not architecture:
            return find_gpu(name)
    except UserError:
        try:
            architecture = find_architecture(name).name
        except UserError:
            known = ", ".join([*ARCHITECTURES, *GPUS])
            raise UserError(f"no such GPU: {name!r}; known: {known}") from None
    return next(gpu for gpu in GPUS.values() if gpu.architecture == architecture)


def inspect_candidate(
    source: str,
    gpu: GpuFacts,
    *,
    task_source: str | None = None,
    is_training: bool = True,
    timeout_s: float = TIMEOUT_S,
    start: Start | None = None,
) -> Inspection:
    """Build every Triton kernel that a candidate launches, for a GPU that need not be here.

    The candidate runs once, in another process, on tensors that have shapes and no values; whatever it does
    there is a status. ``task_source`` (trusted) gives ``get_inputs`` and ``get_init_inputs``; without it
    the candidate's own are taken. ``start`` starts that process, by default a plain child with
    limits and an environment without secrets; give another one to confine it further.

    Raises:
        TaskError: the task's own functions raised, or there are none.
        MachineError: torch or Triton is not installed, or the process cannot be started.
    """
    for needed in ("torch", "triton"):
        if importlib.util.find_spec(needed) is None:
            raise MachineError(
                f"{needed} is not installed; building Triton kernels needs it: pip install {needed}"
            )
    request = {
        "source": source,
        "task_source": task_source,
        "device": gpu.model_dump(mode="json"),
        "is_training": is_training,
        "cpu_s": int(4 * timeout_s) + 1,
    }
    program = "kernelwright.targets.gpu.inspect.child"
    heard = ask_program(program, json.dumps(request).encode(), timeout_s, start or start_here)
    return _inspection(heard, gpu, timeout_s)


@dataclass(frozen=True)
class Heard:
    """What came out of the process; ``code`` None: killed when its time was up."""

    code: int | None
    log: str
    messages: list[dict[str, Any]] = field(default_factory=list)


def start_here(
    command: Sequence[str],
    folder: str,
    answers: int,
    log: int,
    *,
    threads: int = 1,
    more: Mapping[str, str] = MappingProxyType({}),
) -> "subprocess.Popen[bytes]":
    """Start a command as a plain child in a session of its own, with no secrets in its environment.

    ``more`` is added to that environment.
    """
    return subprocess.Popen(
        command,
        cwd=folder,
        env=bare_environment(folder, threads=threads, LANG="C.UTF-8", PYTHONDONTWRITEBYTECODE="1", **more),
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        pass_fds=[answers],
        start_new_session=True,
    )


def ask_program(program: str, request: bytes, timeout_s: float, start: Start) -> Heard:
    """Run a module as a program, give it the request, and return the JSON lines that it wrote.

    Raises:
        UserError: the sandbox is weaker than is required.
        MachineError: the process cannot be started.
    """
    answers, log = _room("answers", ANSWER_BYTES), _room("log", LOG_BYTES)
    command = [sys.executable, "-m", program, str(answers)]
    try:
        with tempfile.TemporaryDirectory(prefix="kernelwright-", ignore_cleanup_errors=True) as folder:
            code = _run(start(command, folder, answers, log), request, timeout_s)
        messages = _messages(answers)
        if messages and "refused" in messages[0]:
            raise UserError(str(messages[0]["refused"])[:500])
        return Heard(code, _written(log, LOG_BYTES).decode(errors="replace")[-LOG_TAIL:], messages)
    except OSError as error:
        raise MachineError(f"no process can be started for {program}: {error}") from error
    finally:
        os.close(answers)
        os.close(log)


def _run(process: "subprocess.Popen[bytes]", request: bytes, timeout_s: float) -> int | None:
    """Return the exit code (negative: signal), None when it had to be killed; its whole session ends."""
    deadline = time.monotonic() + timeout_s
    try:
        process.communicate(request, timeout=timeout_s)
        process.wait(timeout=max(deadline - time.monotonic(), 0.0))
        return process.returncode
    except subprocess.TimeoutExpired:
        return None
    except BrokenPipeError:
        return process.wait()
    finally:
        end_session(process)


def end_session(process: "subprocess.Popen[bytes]") -> None:
    """End a process and its session: by SIGTERM, on which a confining process ends what it confines."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)


def _room(name: str, size: int) -> int:
    """Return memory to write into that cannot grow."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def _written(fd: int, most: int) -> bytes:
    return os.pread(fd, min(os.lseek(fd, 0, os.SEEK_CUR), most), 0)


def _messages(fd: int) -> list[dict[str, Any]]:
    """Return what was said; a line that is no JSON object is left out."""
    found = []
    for line in _written(fd, ANSWER_BYTES).splitlines():
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(message, dict):
            found.append(message)
    return found


def _inspection(heard: Heard, gpu: GpuFacts, timeout_s: float) -> Inspection:
    reports: dict[str, KernelReport] = {}
    versions: dict[str, str] = {}
    begun, ended, sandbox = "", dict[str, Any](), None
    for message in heard.messages:
        if "task_failed" in message:
            raise TaskError(f"the task: {str(message['task_failed'])[:500]}")
        if isinstance(message.get("versions"), dict):
            versions = {str(name): str(version)[:40] for name, version in message["versions"].items()}
        sandbox = str(message["sandbox"])[:40] if sandbox is None and "sandbox" in message else sandbox
        begun = str(message.get("begun", begun))[:200]
        ended = message if "ended" in message else ended
        if "report" in message:
            begun = ""
            try:
                reports[str(message.get("key"))] = KernelReport.model_validate(message["report"])
            except ValidationError:
                continue
    kernels = tuple(reports.values())
    status, detail = _status(heard, ended, begun, timeout_s)
    if status in (InspectionStatus.TIMEOUT, InspectionStatus.CRASHED) and begun:
        blame = KernelReport(kernel=begun, outcome=KernelOutcome.NOT_BUILT, detail=detail)
        kernels = (*kernels, blame)
    if status is InspectionStatus.INSPECTED and not kernels:
        status, detail = InspectionStatus.NO_KERNELS, "it launches no Triton kernel"
    return Inspection(
        architecture=gpu.architecture,
        device=gpu.name,
        status=status,
        detail=detail,
        kernels=kernels,
        versions=versions,
        sandbox=sandbox,
        log=heard.log,
    )


def _status(
    heard: Heard, ended: dict[str, Any], begun: str, timeout_s: float
) -> tuple[InspectionStatus, str]:
    while_ = f" while {begun} was built" if begun else ""
    if heard.code is None:
        return InspectionStatus.TIMEOUT, f"killed after {timeout_s:g} s{while_}"
    if heard.code == 0 and ended.get("ended") == "ran":
        return InspectionStatus.INSPECTED, ""
    if ended.get("ended") in ("not_loaded", "not_run"):
        return InspectionStatus(ended["ended"]), str(ended.get("detail"))[:600]
    how = f"signal {-heard.code}" if heard.code < 0 else f"exit code {heard.code}"
    return InspectionStatus.CRASHED, f"its process ended with {how}{while_}"
