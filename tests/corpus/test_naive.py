"""What a harness that does not look says, as the page of cheats quotes it."""

import os
import sys
import time

import pytest

from kernelwright.corpus import naive
from kernelwright.corpus.naive import NaiveVerdict

LEAVES_AN_ORPHAN = """
import subprocess
orphan = subprocess.Popen(["sleep", "60"])
print('{"accepted": true, "detail": "%d"}' % orphan.pid)
"""


def test_words_name_no_folder_of_the_machine() -> None:
    refused = NaiveVerdict(
        accepted=False, detail="OSError: /home/me/.cache/naive/k.so: cannot open shared object"
    )
    assert refused.words == "not accepted (OSError: k.so: cannot open shared object)"
    assert NaiveVerdict(accepted=True, speedup=8.349).words == "accepted, 8.35x"


def test_an_orphan_neither_holds_the_harness_up_nor_outlives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naive, "TIMEOUT_S", 30.0)
    verdict = naive._run([sys.executable, "-c", LEAVES_AN_ORPHAN], dict(os.environ))
    assert verdict.accepted
    with pytest.raises(ProcessLookupError):
        _wait_for_end(int(verdict.detail))


def _wait_for_end(pid: int) -> None:
    for _ in range(100):
        os.kill(pid, 0)
        time.sleep(0.05)
