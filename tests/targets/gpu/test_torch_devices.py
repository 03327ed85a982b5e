"""Is there a GPU: torch is asked only where one could be."""

import subprocess
from collections.abc import Iterator

import pytest

from kernelwright.targets.gpu import torch_devices as gpu_present
from kernelwright.targets.gpu.torch_devices import has_gpu


@pytest.fixture(autouse=True)
def _looked_up_anew() -> Iterator[None]:
    has_gpu.cache_clear()
    yield
    has_gpu.cache_clear()


def answer(monkeypatch: pytest.MonkeyPatch, words: str) -> list[object]:
    """Have torch's process say something; returns what was asked."""
    asked: list[object] = []

    def run(command: object, **how: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess([], 0, words, "")

    monkeypatch.setattr(gpu_present.subprocess, "run", run)
    return asked


def test_without_its_device_files_torch_is_not_even_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer(monkeypatch, "cuda\n")
    monkeypatch.setattr(gpu_present, "NODES", {"cuda": ("/dev/there-is-none*",)})
    assert not has_gpu("cuda") and not has_gpu("tpu")
    assert not asked


@pytest.mark.parametrize(("said", "expected"), [("cuda\n", True), ("hip\n", False), ("\n", False)])
def test_torch_says_whether_it_can_use_that_kind(
    monkeypatch: pytest.MonkeyPatch, said: str, expected: bool
) -> None:
    answer(monkeypatch, said)
    monkeypatch.setattr(gpu_present, "NODES", {"cuda": ("/dev/null",)})
    assert has_gpu("cuda") is expected
