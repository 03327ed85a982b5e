"""The benchmark of verdicts: what it asks for and what it makes of samples; nothing is measured."""

import ast
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.lab.benchmarks.conftest import WHERE, load_benchmark


@pytest.fixture(scope="module")
def verdict() -> ModuleType:
    return load_benchmark("verdict")


def result(verdict: ModuleType, **changes: Any) -> dict[str, Any]:
    samples = [verdict.Sample("a", "second", s, {"time": 0.5}, 0.01) for s in (1.0, 1.5, 9.0)]
    found = {
        "rows": verdict.summarise(samples),
        "equal": {"trials": 200, "called": 4, "low": 0.008, "high": 0.05, "verdicts": {}},
        "environment": WHERE,
        "waited": 0.01,
        "is_quiet": True,
        "date": "d",
        "command": "c",
    }
    return found | changes


def test_medians_decide_and_what_no_stage_took_is_shown(verdict: ModuleType) -> None:
    found = result(verdict)
    (row,) = found["rows"]
    assert (row["median_s"], row["rest"], row["target_s"]) == (1.5, 1.0, 2.0)
    assert verdict.holds(found)
    slow = [verdict.Sample("a", "second", 2.5)]
    assert not verdict.holds(result(verdict, rows=verdict.summarise(slow)))
    often = {"trials": 200, "called": 30, "low": 0.11, "high": 0.2, "verdicts": {}}
    assert not verdict.holds(result(verdict, equal=often))


def test_a_busy_machine_is_named(verdict: ModuleType) -> None:
    assert "NOT QUIET" in verdict.render(result(verdict, is_quiet=False))
    assert "| a | second | 1.50 s " in verdict.render(result(verdict))


def test_its_kernels_are_python(verdict: ModuleType) -> None:
    for task, kernel in verdict.CASES.values():
        names = [node.name for node in ast.parse(task + kernel).body if isinstance(node, ast.ClassDef)]
        assert names == ["Model", "ModelNew"]


def test_what_is_known_is_written_and_stays_when_other_parts_are_measured(
    verdict: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "environment", lambda: WHERE)
    samples = [verdict.Sample("a", how, 1.0) for how in ("second", "search", "leader", "final")]
    equal = {"trials": 9, "called": 1, "low": 0.0, "high": 0.1, "verdicts": {}, "waited": 0.5}
    verdict.write(verdict.result_of(samples, equal), tmp_path)
    assert "NOT QUIET" in (tmp_path / "verdict.md").read_text(encoding="utf-8")
    assert verdict.earlier(tmp_path, ["equal"]) == (samples, {})
    assert verdict.earlier(tmp_path, ["sessions"]) == (samples[:1], equal)
    assert verdict.earlier(tmp_path, verdict.PARTS) == ([], {})
    assert verdict.earlier(tmp_path / "none", ["equal"]) == ([], {})
    monkeypatch.setattr(verdict, "environment", lambda: WHERE | {"referee": 0})
    assert verdict.earlier(tmp_path, ["equal"]) == ([], {}), "another referee's"
