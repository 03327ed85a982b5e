"""The parent's side, with real processes that behave as no compiler should."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.targets.gpu.inspect import run
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelOutcome,
    KernelReport,
)
from kernelwright.targets.gpu.inspect.run import find_device, inspect_candidate, start_here

KERNEL = {"kernel": "k", "outcome": "fits", "launches": 1, "facts": {"aot.registers": 20}}
TELL = (
    "import os, sys, time, json\ndef tell(m): os.write(int(sys.argv[1]), json.dumps(m).encode() + b'\\n')\n"
)


def start_instead(program: str) -> Callable[[Sequence[str], str, int, int], "subprocess.Popen[bytes]"]:
    def start(command: Sequence[str], folder: str, answers: int, log: int) -> "subprocess.Popen[bytes]":
        return start_here([sys.executable, "-S", "-c", TELL + program, command[-1]], folder, answers, log)

    return start


def heard(program: str, timeout_s: float = 60.0) -> Inspection:
    return inspect_candidate("", find_device("sm_80"), timeout_s=timeout_s, start=start_instead(program))


@pytest.fixture(autouse=True)
def _is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)


def test_a_process_that_answers_well_is_believed() -> None:
    found = heard(f"tell({{'key': 'a', 'report': {KERNEL}}})\ntell({{'ended': 'ran'}})")
    assert found.can_run and found.kernels == (KernelReport.model_validate(KERNEL),)
    assert (found.architecture, found.device) == ("sm_80", "a100-40gb-sxm")


def test_it_is_given_the_source_the_device_and_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    program = "print(sorted(json.load(sys.stdin)), sorted(os.environ))\ntell({'ended': 'ran'})"
    log = heard(program).log
    assert "'source'" in log and "'device'" in log
    assert "SOME_API_KEY" not in log and "TRITON_INTERPRET" not in log


def test_no_kernel_is_a_status() -> None:
    found = heard("tell({'ended': 'ran'})")
    assert found.status is InspectionStatus.NO_KERNELS and not found.can_run


def test_time_is_up_for_it_and_all_that_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    program = (
        f"tell({{'key': 'a', 'report': {KERNEL}}})\ntell({{'begun': 'endless_kernel'}})\n"
        f"pid = os.fork()\nif pid: open({str(mark)!r}, 'w').write(str(pid))\n"
        "while True: time.sleep(1)"
    )
    found = heard(program, timeout_s=2.0)
    assert found.status is InspectionStatus.TIMEOUT and "while endless_kernel was built" in found.detail
    kept, blamed = found.kernels
    assert kept.kernel == "k" and blamed.outcome is KernelOutcome.NOT_BUILT
    deadline = time.monotonic() + 30
    while Path(f"/proc/{mark.read_text()}").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{mark.read_text()}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    assert not Path(f"/proc/{mark.read_text()}").exists()


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("os.abort()", "signal 6"),
        ("tell({'begun': 'k'})\nos._exit(3)", "exit code 3 while k was built"),
        ("tell({'ended': 'ran'})\nos._exit(1)", "exit code 1"),
        ("pass", "exit code 0"),
        ("os.close(0)\nraise SystemExit('no')", "exit code 1"),
    ],
)
def test_a_process_that_ends_by_itself_is_a_status(program: str, how: str) -> None:
    found = heard(program)
    assert found.status is InspectionStatus.CRASHED and found.detail == f"its process ended with {how}"


@pytest.mark.parametrize(
    "nonsense",
    [
        "os.write(int(sys.argv[1]), b'{' * 100_000 + b'\\n[]\\nnull\\n\\xff\\xfe\\n')",
        "tell({'key': 'a', 'report': {'kernel': 'k', 'outcome': 'excellent'}})",
        "tell({'key': 'a', 'report': 7})\ntell({'versions': 7})",
        "os.lseek(int(sys.argv[1]), 1 << 50, 0)",
        "try:\n  while True: os.write(int(sys.argv[1]), b'x' * 65536)\nexcept OSError: pass",
        "try:\n  while True: os.write(1, b'x' * 65536)\nexcept OSError: pass",
    ],
)
def test_nonsense_is_left_out(nonsense: str) -> None:
    found = heard(f"{nonsense}\ntell({{'ended': 'ran'}})" if "argv" not in nonsense else nonsense)
    assert not found.can_run and found.kernels == () and len(found.log) <= run.LOG_TAIL


def test_the_tasks_own_fault_is_the_users() -> None:
    with pytest.raises(TaskError, match="get_inputs"):
        heard("tell({'task_failed': 'get_inputs() raised ValueError'})")


def test_without_triton_the_machine_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "triton" else name)
    with pytest.raises(MachineError, match="triton is not installed"):
        heard("pass")


def test_devices_are_found_by_model_driver_and_architecture() -> None:
    assert find_device("sm_90").name == "h100-sxm" and find_device("sm_90a").name == "h100-sxm"
    assert find_device("NVIDIA H200").name == "h200-sxm" and find_device("gfx942").name == "mi300x"
    with pytest.raises(UserError, match=r"sm_12.*known: sm_80"):
        find_device("sm_12")


def test_only_launches_that_are_no_trials_decide() -> None:
    bad = {**KERNEL, "kernel": "tried", "outcome": "not_built", "facts": {}, "is_trial": True, "launches": 0}
    program = "\n".join(f"tell({{'key': {n!r}, 'report': {k}}})" for n, k in (("a", KERNEL), ("b", bad)))
    assert heard(f"{program}\ntell({{'ended': 'ran'}})").can_run
