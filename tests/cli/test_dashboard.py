"""``kernelwright dashboard`` as it is started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

TOKEN = "a-token-for-tests-only"


@pytest.mark.parametrize(
    ("token", "words", "expected"),
    [
        ("", ["--host", "0.0.0.0"], "KERNELWRIGHT_DASHBOARD_TOKEN is not set"),
        ("short", [], "fewer than 16 characters"),
        (TOKEN, ["--host", "203.0.113.1"], "cannot listen on 203.0.113.1 port 8789"),
        ("", ["--store", "nowhere.db"], "nowhere.db"),
    ],
)
def test_what_would_be_unsafe_or_cannot_be_is_refused_in_one_line(
    cli: Any, monkeypatch: pytest.MonkeyPatch, token: str, words: list[str], expected: str
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_DASHBOARD_TOKEN", token)
    result = cli("dashboard", *words)
    assert result.code == 2 and expected in result.err


def test_it_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kernelwright", "dashboard", "--port", "0", "--json"],
        env={
            **os.environ,
            "KERNELWRIGHT_STORE": str(tmp_path / "runs.db"),
            "KERNELWRIGHT_DASHBOARD_TOKEN": "",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    text = ""
    while "}" not in text:
        text += process.stdout.readline() or pytest.fail("the dashboard did not start")
    assert "No runs yet" in httpx.get(json.loads(text)["serving"]).text
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0 and said.endswith("ended\n")
