"""Whatever shell starts the tests, they find the same place; see ``conftest.py``."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
STRANGE = {
    "KERNELWRIGHT_REQUIRE_SANDBOX": "namespaces", "OMP_NUM_THREADS": "1", "OPENAI_API_KEY": "sk-strange",
    "HTTPS_PROXY": "http://127.0.0.1:1", "COLUMNS": "40", "NO_COLOR": "1", "LC_ALL": "C",
    "PYTHONUNBUFFERED": "1", "TZ": "Asia/Kathmandu",
}  # fmt: skip


def test_this_process_is_like_a_fresh_one_in_the_foreground() -> None:
    assert not [name for name in STRANGE if name in os.environ and name not in ("LC_ALL", "TZ")]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    assert time.tzname[0] == "UTC" and os.environ["LC_ALL"] == "C.UTF-8"
    mask = os.umask(0o022)
    assert mask == 0o022


def test_so_it_is_where_a_strange_shell_starts_it_in_the_background() -> None:
    def in_the_background() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.umask(0o077)

    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", __file__, "-k", "like_a_fresh_one"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **STRANGE},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=in_the_background,
    )
    assert done.returncode == 0, done.stdout
