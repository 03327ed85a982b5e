"""The command that puts the referee behind a port or a folder."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import PEAKS, TASK
from tests.marks import first_quick

from kernelwright.api import serving
from kernelwright.cli import serve
from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Task
from kernelwright.remote.client import RemoteEvaluator
from kernelwright.remote.filedrop import FileDropEvaluator
from kernelwright.settings import load_settings
from kernelwright.targets.gpu import driver_files as gpu_here
from kernelwright.targets.gpu import peaks as gpu_peaks
from kernelwright.targets.gpu.driver_files import GpuHere
from kernelwright.targets.gpu.facts import GPUS

TOKEN = "a-token-for-tests-only"
KERNEL = Candidate(source=TASK.replace("class Model(", "class ModelNew("))
RELU = Task(name="relu", source=TASK)
PROGRAM = f"""
import sys, kernelwright.machine.probe
from kernelwright.core.roofline import Peaks
from kernelwright.cli.main import run
PEAKS = Peaks.model_validate_json({PEAKS.model_dump_json()!r})
kernelwright.machine.probe.measure_peaks = lambda cache: PEAKS
sys.exit(run(sys.argv[1:]))
"""
"""The command line as it is, without the seconds of measuring the machine's peaks."""


@pytest.mark.parametrize(
    ("token", "words", "expected"),
    [
        (None, [], ["KERNELWRIGHT_SERVE_TOKEN is not set", "--no-token"]),
        ("", [], ["KERNELWRIGHT_SERVE_TOKEN is not set"]),
        ("short", [], ["fewer than 16 characters"]),
        (TOKEN, ["--token-env", "ANOTHER"], ["ANOTHER is not set"]),
        (TOKEN, ["--no-token", "--host", "0.0.0.0"], ["--no-token is refused on 0.0.0.0"]),
        (TOKEN, ["--no-token", "--host", "::"], ["--no-token is refused on ::"]),
        (TOKEN, ["--host", "203.0.113.1"], ["cannot listen on 203.0.113.1 port 8787"]),
        (TOKEN, ["--device", "tpu"], ["unknown device 'tpu'"]),
        (TOKEN, ["--drop", "file"], ["file: no drop folder can be made there"]),
    ],
)
def test_what_would_be_unsafe_or_cannot_be_is_refused_in_one_line(
    cli: Any, monkeypatch: pytest.MonkeyPatch, token: str | None, words: list[str], expected: list[str]
) -> None:
    Path("file").write_text("in the way", encoding="utf-8")
    monkeypatch.delenv("KERNELWRIGHT_SERVE_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("KERNELWRIGHT_SERVE_TOKEN", token)
    result = cli("serve", *words)
    assert (result.code, result.out) == (2, "")
    (line,) = result.err.strip().splitlines()
    assert line.startswith("error: ") and TOKEN not in line
    for word in expected:
        assert word in line


def test_limits_that_make_no_sense_are_usage_errors(cli: Any) -> None:
    for words in (
        ["--max-queue", "0"],
        ["--port", "70000"],
        ["--max-bytes", "x"],
        ["--max-per-client", "-1"],
    ):
        assert cli("serve", *words).code == 2


def test_a_missing_package_is_one_line(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "kernelwright.remote.server", raising=False)
    result = cli("serve", "--no-token")
    assert result.code == 2
    assert "uvicorn is not installed; install it with: pip install 'kernelwright[serve]'" in result.err


def test_floors_of_a_gpu_allow_the_fastest_products_and_those_of_another_model_are_not_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The GPUs are stubs."""
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: True)
    monkeypatch.setattr(gpu_peaks, "gpu_here", lambda kind, cache: GPUS["h200-sxm"])
    monkeypatch.setattr(gpu_here, "find_gpus", lambda: (GpuHere("NVIDIA H200"), GpuHere("NVIDIA L40S")))
    where = replace(load_settings(), cache_dir=tmp_path)
    first = serving.peaks_to_judge_by(where, "cuda")
    assert first is not None and first.fma_gflops == pytest.approx(989e3)
    assert serving.peaks_to_judge_by(where, "cuda:1") is None
    assert [serve._gpu_name(where, name) for name in ("cpu", "cuda", "cuda:1")] == ["", "h200-sxm", ""]


def test_help_says_what_it_is(cli: Any) -> None:
    shown = cli("serve", "--help").out
    assert "--drop" in shown and "--json" in shown


@contextmanager
def started(tmp_path: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command as a process; yields it and what it serves."""
    where = {f"KERNELWRIGHT_{name}": str(tmp_path / name.lower()) for name in ("CACHE", "DATA")}
    environ = {**os.environ, **where, "KERNELWRIGHT_SERVE_TOKEN": TOKEN}
    command = [sys.executable, "-c", PROGRAM, "serve", "--json", *words]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            document = ""
            while not document.endswith("}\n"):
                line = process.stdout.readline()
                assert line, process.stderr.read() if process.stderr else ""
                document += line
            yield process, json.loads(document)["serving"]
        finally:
            process.kill()


def descendants(pid: int) -> set[int]:
    """Return the processes below one."""
    found: set[int] = set()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text(encoding="utf-8").split()):
            found |= {child} | descendants(child)
    return found


def wait_until_gone(pids: set[int]) -> None:
    """Fail when one of the processes is there to stay."""
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() and not _is_zombie(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still there: {pids}"
        time.sleep(0.05)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.parametrize("how", first_quick([signal.SIGTERM, signal.SIGINT]))
def test_a_signal_ends_the_service_and_every_process_of_it(tmp_path: Path, how: signal.Signals) -> None:
    with started(tmp_path, "--port", "0") as (process, url):
        with RemoteEvaluator(url, TOKEN).open(RELU) as session:
            assert session.evaluate(KERNEL).is_verified
        below = descendants(process.pid)
        assert len(below) >= 2
        process.send_signal(how)
        assert process.wait(60) == 0
        assert process.stderr is not None
        said = process.stderr.read()
        assert f"serving on {url} with the token in KERNELWRIGHT_SERVE_TOKEN" in said
        assert said.strip().splitlines()[-1] == "ended"
        assert TOKEN not in said and "Traceback" not in said
        wait_until_gone(below)


@pytest.mark.slow
def test_a_folder_is_answered_until_a_signal_ends_it(tmp_path: Path) -> None:
    with started(tmp_path, "--drop", str(tmp_path / "drop")) as (process, folder):
        with FileDropEvaluator(Path(folder), 300.0, 0.05).open(RELU) as session:
            assert session.evaluate(KERNEL).is_verified
        below = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        wait_until_gone(below)
