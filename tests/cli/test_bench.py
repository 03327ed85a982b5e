import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.core.errors import MachineError
from kernelwright.core.machine import Machine
from kernelwright.machine import probe
from kernelwright.referee.baselines import known_baselines


@pytest.fixture
def folder(task_file: Path) -> Path:
    """Two tasks."""
    tasks = task_file.parent / "pointwise"
    tasks.mkdir()
    for name in ("1_First.py", "2_Second.py"):
        text = task_file.read_text(encoding="utf-8")
        (tasks / name).write_text(f"# {name}\n{text}", encoding="utf-8")
    return tasks


def test_bench_writes_tables_for_every_task(cli: Any, engine: Any, folder: Path) -> None:
    result = cli("bench", folder, "--name", "trial")
    assert result.code == 0
    assert engine.played == ["1_First", "2_Second"]
    assert "[1/2] 1_First: 6.00x [5.76, 6.30] over eager, 1.94x" in result.err
    data = json.loads(Path("trial/results.json").read_text(encoding="utf-8"))
    assert [row["category"] for row in data["rows"]] == ["pointwise", "pointwise"]
    assert data["summaries"][0]["eager"]["geomean"] == pytest.approx(6.0)
    assert data["command"].endswith("--name trial") and data["environment"]["processor"]
    text = Path("trial/results.md").read_text(encoding="utf-8")
    assert "| 6.00x |" in text and "6.00x [6.00, 6.00]" not in text  # two tasks have no interval over tasks
    assert Path("trial/results.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_bench_that_goes_on_elsewhere_names_both_machines(
    cli: Any, engine: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = iter("AB")
    probed = probe.probe_machine

    def elsewhere(*arguments: Any, **options: Any) -> Machine:
        return probed(*arguments, **options).model_copy(update={"processor": f"CPU {model}", "cores": 2})

    monkeypatch.setattr(probe, "probe_machine", elsewhere)
    model = next(models)
    cli("bench", folder, "--name", "trial", "--only", "1_*")
    model = next(models)
    found = cli("bench", folder, "--resume", "trial", "--json").json
    assert {row["task"]: row["device"] for row in found["rows"]} == {"1_First": "CPU A", "2_Second": "CPU B"}
    assert set(found["devices"]) == {"CPU A", "CPU B"} and "processor" not in found["environment"]
    assert "| CPU B |" in Path("trial/results.md").read_text(encoding="utf-8")


def test_a_bench_takes_over_the_rows_of_another_store(
    cli: Any, engine: Any, folder: Path, tmp_path: Path
) -> None:
    cli("bench", folder, "--name", "trial", "--only", "1_*", "--store", tmp_path / "one.db")
    engine.played.clear()
    there = ("--store", tmp_path / "two.db", "--earlier", "trial/results.json")
    found = cli("bench", folder, "--name", "rest", *there, "--json")
    assert found.code == 0 and engine.played == ["2_Second"]
    assert [row["task"] for row in found.json["rows"]] == ["1_First", "2_Second"] and not found.json["left"]
    assert found.json["summaries"][0]["n_tasks"] == 2
    engine.played.clear()
    both = ("--store", tmp_path / "three.db", "--earlier", "rest/results.json")
    again = cli("bench", folder, "--name", "all", *both, "--json")
    assert engine.played == [] and again.json["rows"] == found.json["rows"]


def test_a_bench_runs_anew_what_failed_elsewhere(cli: Any, engine: Any, folder: Path, tmp_path: Path) -> None:
    engine.error = MachineError("needs 93 GiB; scale batch_size down")
    cli("bench", folder, "--name", "trial", "--only", "1_*", "--store", tmp_path / "one.db")
    engine.error = None
    there = ("--store", tmp_path / "two.db", "--earlier", "trial/results.json")
    found = cli("bench", folder, "--name", "rest", *there, "--json")
    assert [row["ending"] for row in found.json["rows"]] == ["faster", "faster"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file or directory"),
        ("{", "no such results"),
        ('{"rows": [{"task": 1}]}', "no such results: rows.0"),
        ('{"rows": []}', "its conditions are not known; run these tasks again"),
    ],
)
def test_earlier_results_that_cannot_be_read_are_refused(
    cli: Any, engine: Any, folder: Path, tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "results.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    result = cli("bench", folder, "--earlier", file)
    assert result.code == 2 and message in result.err and len(result.err.splitlines()) == 1
    assert engine.played == []


def test_earlier_results_of_other_conditions_are_refused(cli: Any, engine: Any, folder: Path) -> None:
    cli("bench", folder, "--name", "trial", "--budget-evaluations", "3")
    result = cli("bench", folder, "--name", "rest", "--earlier", "trial/results.json")
    assert result.code == 2 and "budget was {'evaluations': 3}, and is {} here" in result.err
    written = json.loads(Path("trial/results.json").read_text(encoding="utf-8"))
    written["conditions"] = {**written["conditions"], "budget": {}, "referee": 1}
    Path("trial/results.json").write_text(json.dumps(written), encoding="utf-8")
    result = cli("bench", folder, "--name", "rest", "--earlier", "trial/results.json")
    assert result.code == 2 and "referee was 1, and is" in result.err


def test_a_failing_task_is_a_row_and_exit_code_1(cli: Any, engine: Any, folder: Path) -> None:
    engine.error = MachineError("needs 93 GiB; scale batch_size down")
    result = cli("bench", folder, "--name", "trial", "--json")
    assert result.code == 1
    assert [row["ending"] for row in result.json["rows"]] == ["failed", "failed"]
    assert "93 GiB" in result.json["rows"][0]["detail"]


def test_resume_skips_what_is_finished(cli: Any, engine: Any, folder: Path) -> None:
    engine.interrupt_after = 6
    stopped = cli("bench", folder, "--name", "trial")
    assert stopped.code == 130
    assert "--resume trial" in stopped.err
    assert cli("bench", folder, "--resume", "trial").code == 0
    engine.played.clear()
    again = cli("bench", folder, "--resume", "trial", "--json")
    assert engine.played == []
    assert [row["ending"] for row in again.json["rows"]] == ["faster", "faster"]


def test_an_interrupted_bench_leaves_the_rows_it_has(cli: Any, engine: Any, folder: Path) -> None:
    engine.interrupt_after = 6
    assert cli("bench", folder, "--name", "trial").code == 130
    data = json.loads(Path("trial/results.json").read_text(encoding="utf-8"))
    assert [row["task"] for row in data["rows"]] + data["left"] == ["1_First", "2_Second"]
    assert len(data["left"]) >= 1


def test_after_its_time_no_task_is_begun_and_what_is_finished_still_counts(
    cli: Any, engine: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("bench", folder / "2_Second.py", "--name", "trial")
    clock = iter(range(0, 1000, 100))
    timer = SimpleNamespace(monotonic=lambda: float(next(clock)))
    monkeypatch.setattr("kernelwright.api.benching.time", timer)
    engine.played.clear()
    result = cli("bench", folder, "--resume", "trial", "--stop-after", "50", "--json")
    assert result.code == 0 and engine.played == []
    assert [row["task"] for row in result.json["rows"]] == ["2_Second"]
    assert result.json["left"] == ["1_First"]


def test_an_experiment_is_not_mixed_with_another_by_accident(cli: Any, engine: Any, folder: Path) -> None:
    cli("bench", folder, "--name", "trial")
    result = cli("bench", folder, "--name", "trial")
    assert result.code == 2
    assert "--resume trial" in result.err


def test_only_and_limit_choose_tasks(cli: Any, engine: Any, folder: Path) -> None:
    cli("bench", folder, "--only", "2_*")
    assert engine.played == ["2_Second"]
    cli("bench", folder, "--limit", "1", "--name", "other")
    assert engine.played == ["2_Second", "1_First"]


def test_a_manifest_gives_shapes_and_groups(cli: Any, engine: Any, folder: Path) -> None:
    manifest = folder.parent / "tasks.yaml"
    manifest.write_text(
        "- {path: 1_First.py, overrides: {batch_size: 2}}\n- {path: 2_Second.py, group: held-out}\n",
        encoding="utf-8",
    )
    rows = cli("bench", folder, "--tasks", manifest, "--json").json["rows"]
    assert [row["group"] for row in rows] == ["main", "held-out"]
    result = cli("bench", "--tasks", manifest)
    assert result.code == 2
    assert "name the one folder" in result.err


def test_quick_takes_the_searchs_own_verdicts_and_says_so(cli: Any, engine: Any, folder: Path) -> None:
    result = cli("bench", folder, "--name", "trial", "--quick", "--json")
    assert result.json["is_quick"] and result.code == 0
    run_id = result.json["rows"][0]["run_id"]
    assert cli("runs", "show", run_id, "--json").json["run"]["spec"]["baselines"] == ["eager"]
    text = Path("trial/results.md").read_text(encoding="utf-8")
    assert "during the search" in text and "fresh process" not in text
    mixed = cli("bench", folder, "--resume", "trial")
    assert mixed.code == 2 and "compared with eager" in mixed.err


def test_further_baselines_are_those_of_the_targets_device(cli: Any, engine: Any, folder: Path) -> None:
    assert cli("bench", folder, "--baseline", "eager_tf32").code == 2
    result = cli("bench", folder, "--baseline", "torch_compile", "--json")
    run_id = result.json["rows"][0]["run_id"]
    spec = cli("runs", "show", run_id, "--json").json["run"]["spec"]
    assert spec["baselines"] == ["eager", "torch_compile"]


def test_peers_are_all_that_the_device_knows(
    cli: Any, engine: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"onnxruntime": "1.0", "openvino": "2.0"}
    for module in ("benching", "machines"):
        monkeypatch.setattr(f"kernelwright.api.{module}.package_versions", lambda names: versions)
    result = cli("bench", folder, "--peers", "--json")
    assert result.json["environment"]["openvino"] == "2.0"
    spec = cli("runs", "show", result.json["rows"][0]["run_id"], "--json").json["run"]["spec"]
    assert set(spec["baselines"]) == set(known_baselines("cpu"))


def test_peers_that_are_not_installed_end_in_one_line(
    cli: Any, engine: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.api.machines.package_versions", lambda names: {"openvino": None})
    result = cli("bench", folder, "--peers")
    assert result.code == 2
    assert "needs openvino, which is not installed" in result.err and "kernelwright[peers]" in result.err


@pytest.mark.parametrize("option", ["--quick", "--no-profile"])
def test_no_profiles_are_taken_where_none_are_wanted(
    cli: Any, engine: Any, folder: Path, option: str
) -> None:
    cli("bench", folder, "--limit", "1", "--name", "profiled")
    assert engine.profile is None, "what the run itself takes"
    assert cli("bench", folder, "--limit", "1", option).code == 0
    found = engine.profile(None, None)
    assert found.hottest is None and found.note.startswith("not profiled")
