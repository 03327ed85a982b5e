"""The same place for every test, whatever shell starts them: environment, signals, file modes."""

import gc
import os
import signal
import time
import zlib
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

OF_THE_SHELL = (
    "KERNELWRIGHT_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "TORCHINDUCTOR_", "PYTORCH_", "XDG_",
    "PYTHONUNBUFFERED", "PYTHONWARNINGS", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR",
)  # fmt: skip
"""How variables begin that change what is tested."""
KEPT = ("KERNELWRIGHT_TEST_", "KERNELWRIGHT_CACHE", "KERNELWRIGHT_DATA", "KERNELWRIGHT_STORE")
"""What is meant for the tests, and where a caller wants files kept."""
TAKE_MINUTES = (
    "corpus/test_judging_others.py", "referee/test_pairs.py", "api/test_models_apart.py",
    "referee/test_ordinary.py", "warm/test_real.py", "docs/test_blocks.py", "docs/test_readme.py",
    "mcp/test_loop.py", "lab/benchmarks/test_killed_runs.py", "corpus/test_classes_of_inputs.py",
    "api/test_claims.py", "api/test_optimize.py", "referee/test_replay.py", "targets/test_numpy_example.py",
)  # fmt: skip
"""Files of slow tests: what begins with them ends with short ones, for all workers at about the same time."""
OF_THE_NETWORK = ("_API_KEY", "_PROXY", "_BASE_URL")
"""How variables end that would take a test off this machine."""


def pytest_configure() -> None:
    """Make the process like a fresh one: in the foreground, with plain text, UTC and usual file modes."""
    for name in list(os.environ):
        if name.startswith(KEPT):
            continue
        if name.startswith(OF_THE_SHELL) or name.upper().endswith(OF_THE_NETWORK):
            del os.environ[name]
    os.environ.update(LC_ALL="C.UTF-8", TERM="dumb", TZ="UTC")
    os.environ["KERNELWRIGHT_FRESH_REFEREE"] = "1"  # no test leaves a process behind unless it is about that
    os.environ["KERNELWRIGHT_FINAL_SECONDS"] = "5"  # no test is about the width of an interval
    time.tzset()
    os.umask(0o022)
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    settings.register_profile("busy machine", deadline=None)  # no test is about seconds
    settings.load_profile("busy machine")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return half as many again as there are cores: tests that judge wait for the device."""
    cores = len(os.sched_getaffinity(0))
    return cores + cores // 2


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files that take minutes first, where workers keep to the order."""
    if not config.getoption("loadscopereorder", True):
        first = {f"tests/{name}": at for at, name in enumerate(TAKE_MINUTES)}
        items.sort(key=lambda item: first.get(item.nodeid.partition("::")[0], len(first)))


def pytest_collection_finish() -> None:
    """Take what all tests share out of every later collection of garbage: a fifth of their time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have a test draw the same tensors in every run, alone or among others."""
    torch.manual_seed(zlib.crc32(item.nodeid.encode()))


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Collect no garbage while a test runs: what only a collection would free is held."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
