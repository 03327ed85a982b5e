"""The command that measures the gallery, with stubs for the search and the processes that time."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kernelwright
from lab.benchmarks import gallery


@pytest.fixture
def optimised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stub: the first search finds a kernel, the second nothing; the names of both are kept."""
    names: list[str] = []

    def optimize(module: Any, inputs: Any, *, name: str, **how: Any) -> Any:
        names.append(name)
        found = SimpleNamespace(run_id=f"run{len(names)}", reason="done", evaluation=None, composition=None)
        winner = object() if len(names) == 1 else None
        return SimpleNamespace(**vars(found), winner=winner, save=lambda folder: folder)

    monkeypatch.setattr(kernelwright, "optimize", optimize)
    logs = iter([{"eager": 0.68, "torch_compile": 0.1}, {"eager": 0.70, "torch_compile": 0.1}])
    monkeypatch.setattr(gallery, "_in_process", lambda *args: next(logs))
    return names


def test_rows_come_one_by_one_and_none_is_measured_twice(
    tmp_path: Path, optimised: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--work", str(tmp_path), "--processes", "2", "--small", "--only"]
    gallery.main([*words, "layer norm, float32"])
    rows = tmp_path / "rows.jsonl"
    with rows.open("a", encoding="utf-8") as file:
        file.write('{"case": "torn by a ki')  # the machine stopped here
        file.write("\n")
    gallery.main([*words, "layer norm, *32"])
    assert optimised == ["layer_norm_float32"]
    gallery.main([*words, "*r norm, *"])
    assert optimised == ["layer_norm_float32", "layer_norm_bfloat16", "layer_norm_float16"]
    made, unchanged = (json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()[::2][:2])
    low, ratio, high = (made["own"]["eager"][i] for i in (1, 0, 2))
    assert low < ratio < high and ratio == pytest.approx(1.99, abs=0.01)
    assert unchanged["delivered"] == "unchanged" and "own" not in unchanged
    shown = capsys.readouterr().out
    assert "| layer norm, float32 | a kernel | 1.99 [" in shown


def test_an_interval_needs_two_processes() -> None:
    with pytest.raises(SystemExit):
        gallery.main(["--processes", "1"])
