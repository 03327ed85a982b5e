from pathlib import Path
from typing import Any

import pytest
from lab.sample_run import make_store

from kernelwright.core.events import CandidateEvaluated
from kernelwright.store.sqlstore import open_store


@pytest.fixture
def run_id(cli: Any, engine: Any, task_file: Path) -> str:
    """A finished run."""
    return str(cli("optimize", task_file, "--json").json["run_id"])


def test_list_shows_newest_first_with_results(cli: Any, engine: Any, task_file: Path, run_id: str) -> None:
    second = cli("optimize", task_file, "--json").json["run_id"]
    assert [run["run_id"] for run in cli("runs", "list", "--json").json] == [second, run_id]
    assert "6.00x [5.76, 6.30] over eager" in cli("runs", "list").out


def test_an_empty_store_says_how_to_begin(cli: Any) -> None:
    assert "kernelwright optimize FILE" in cli("runs", "list").out
    assert cli("runs", "list", "--json").json == []


def test_show_tells_every_step(cli: Any, run_id: str) -> None:
    out = cli("runs", "show", run_id[:-1] if len(run_id) > 8 else run_id).out
    assert "6.00x faster than eager" in out
    assert "region k0 has no contiguous output" in out


def test_export_gives_the_source_byte_for_byte(cli: Any, run_id: str) -> None:
    source = cli("runs", "export", run_id).out
    assert "<script>alert(1)</script>" in source and source.startswith('"""Fused softplus')
    assert cli("runs", "export", run_id, "-o", "k.py").code == 0
    assert Path("k.py").read_text(encoding="utf-8") == source


def test_export_of_a_run_without_a_winner_is_refused(cli: Any, engine: Any, task_file: Path) -> None:
    engine.has_winner = False
    run_id = cli("optimize", task_file, "--json").json["run_id"]
    result = cli("runs", "export", run_id)
    assert (result.code, result.out) == (2, "")
    assert "nothing faster" in result.err


def test_report_can_be_written_again(cli: Any, run_id: str) -> None:
    assert cli("runs", "report", run_id, "-o", "again.html").code == 0
    assert "6.00x faster than eager" in Path("again.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("n_devices", [0, 1, 2])
def test_show_names_the_devices_of_a_fleet_that_judged(cli: Any, tmp_path: Path, n_devices: int) -> None:
    store, sample = open_store(tmp_path / "runs.db"), make_store()
    run_id = store.create_run(sample.record.spec)
    for event in sample.events:
        if isinstance(event, CandidateEvaluated) and n_devices:
            judged = event.evaluation.model_copy(update={"device": f"host/{event.step % n_devices}"})
            event = event.model_copy(update={"evaluation": judged})
        store.append_event(run_id, event)
    store.close()
    out = cli("runs", "show", run_id).out
    assert ("Judged on: " in out, " device " in out) == (n_devices > 0, n_devices > 1)
    assert out.count("host/") == (0, 1, 8)[n_devices]
    assert ("told eager's latency on host/1; every verdict has" in " ".join(out.split())) == (n_devices > 1)
