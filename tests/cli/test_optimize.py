from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.errors import MachineError, UserError
from kernelwright.core.machine import Accelerator, Machine
from kernelwright.targets.gpu.facts import GPUS, GpuFacts


def test_optimize_ends_in_a_verdict_a_kernel_and_a_report(cli: Any, engine: Any, task_file: Path) -> None:
    result = cli("optimize", task_file)
    assert result.code == 0
    assert result.out.splitlines()[:3] == [
        "Verified, 6.00x faster than eager",
        "6.00x [5.76, 6.30] over eager.",
        "1.94x [1.86, 2.03] over torch.compile.",
    ]
    assert "class ModelNew" in Path("relu_fast.py").read_text(encoding="utf-8")
    assert "6.00x faster than eager" in Path("relu_report.html").read_text(encoding="utf-8")


def test_progress_goes_to_stderr_as_plain_lines(cli: Any, engine: Any, task_file: Path) -> None:
    result = cli("optimize", task_file)
    assert "\x1b" not in result.err + result.out
    assert result.err.splitlines() == [
        "relu: eager 9.6 ms, floor 1.2 ms (memory)",
        "  1 seed     starting candidate: 2.46x [2.36, 2.58] (best so far)",
        "  2 optimize fuse-pointwise @ k0: 5.93x [5.69, 6.22] (best so far; 1 already tried)",
        "  3 optimize vector-width @ k0 (lanes=16): compile error "
        "(kernel.cpp:9: error: 'k' was not declared in this scope)",
        "  4 repair   vector-width @ k0 (lanes=16): 5.65x [5.42, 5.93]",
        "  5 final    winner again, fresh process: 6.00x [5.76, 6.30]",
        "search ended: every move that applies to the fastest candidate was tried",
    ]


def test_json_is_one_document_on_stdout(cli: Any, engine: Any, task_file: Path) -> None:
    document = cli("optimize", task_file, "--json", "-o", "k.py", "--report", "r.html").json
    assert document["verified"] and document["improved"]
    assert document["speedup_over_torch_compile"]["ratio"] > 1.9
    assert (document["kernel"], document["report"]) == ("k.py", "r.html")


def test_nothing_faster_found_is_a_success_that_writes_no_kernel(
    cli: Any, engine: Any, task_file: Path
) -> None:
    engine.has_winner = False
    result = cli("optimize", task_file)
    assert result.code == 0
    assert result.out.startswith("Nothing faster found: the module stays as it is")
    assert not Path("relu_fast.py").exists()


def test_without_a_kernel_the_original_computes_gradients_and_a_line_says_why(
    cli: Any, engine: Any, task_file: Path
) -> None:
    engine.has_winner = False
    result = cli("optimize", task_file, "--with-backward")
    assert result.code == 0
    assert "Gradients: by the original, as no kernel for the forward was faster" in result.out
    assert Path("relu_report.html").exists() and not Path("relu_fast").exists()
    document = cli("optimize", task_file, "--with-backward", "--again", "--json").json
    assert (document["improved"], document["folder"]) == (False, None)
    assert document["backward"].startswith("by the original")


def test_a_winner_that_does_not_hold_exits_1(cli: Any, engine: Any, task_file: Path) -> None:
    engine.is_final_bad = True
    result = cli("optimize", task_file)
    assert result.code == 1
    assert result.out.startswith("The winner did not pass its final evaluation")


def test_options_reach_the_run(cli: Any, engine: Any, task_file: Path) -> None:
    words = ["--seed", "7", "--budget-evaluations", "3", "--mode", "eval", "--workload", "small:batch_size=2"]
    run_id = cli("optimize", task_file, *words, "--json").json["run_id"]
    spec = cli("runs", "show", run_id, "--json").json["run"]["spec"]
    assert (spec["seed"], spec["budget"]["evaluations"], spec["task"]["mode"]) == (7, 3, "eval")
    (workload,) = spec["task"]["workloads"]
    assert (workload["name"], workload["overrides"]) == ("small", {"batch_size": 2})
    assert spec["environment"]["machine.bandwidth_gbps"] == 18.0


def test_a_gpu_s_target_is_for_where_the_gpu_is(
    cli: Any, engine: Any, task_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.targets.gpu.torch_devices.has_gpu", lambda kind: False)
    words = ["optimize", task_file, "--target", "cuda/triton"]
    refused = cli(*words)
    assert refused.code == 2 and "needs a GPU" in refused.err
    run_id = cli(*words, "--evaluator", "drop:there", "--json").json["run_id"]
    spec = cli("runs", "show", run_id, "--json").json["run"]["spec"]
    assert spec["target"] == {"device": "cuda", "language": "triton"} and "gpu" not in spec["environment"]
    there = Machine(accelerator=Accelerator(name="h200-sxm"))  # a stub of a service's
    monkeypatch.setattr("kernelwright.remote.client.RemoteEvaluator.machine", lambda evaluator: there)
    run_id = cli(*words, "--evaluator", "http://127.0.0.1:1", "--json").json["run_id"]
    spec = cli("runs", "show", run_id, "--json").json["run"]["spec"]
    assert spec["environment"]["gpu"] == "h200-sxm"


@pytest.mark.parametrize("there", ["h200-sxm", ""])
def test_a_gpu_here_is_not_asked_about_what_is_judged_elsewhere(
    cli: Any, engine: Any, task_file: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    asked: list[str] = []

    def measured(kind: str, cache: Path) -> GpuFacts:
        asked.append(kind)
        return GPUS["rtx-4090"]

    def gpu_facts(*words: object) -> dict[str, Any]:
        run_id = cli("optimize", task_file, "--target", "cuda/triton", "--json", *words).json["run_id"]
        facts = cli("runs", "show", run_id, "--json").json["run"]["spec"]["environment"]
        return {name: fact for name, fact in facts.items() if name.startswith("gpu")}

    for module in ("torch_devices", "peaks"):  # stubs: neither GPU is there
        monkeypatch.setattr(f"kernelwright.targets.gpu.{module}.has_gpu", lambda kind: True)
    monkeypatch.setattr("kernelwright.targets.gpu.peaks.gpu_here", measured)
    machine = Machine(accelerator=Accelerator(name=there)) if there else None
    monkeypatch.setattr("kernelwright.remote.filedrop.FileDropEvaluator.machine", lambda evaluator: machine)
    assert gpu_facts() == {"gpu": "rtx-4090", "gpu_peaks": "published"} and asked
    asked.clear()
    elsewhere: dict[str, Any] = {"gpu_elsewhere": True, "gpu": there}
    assert gpu_facts("--evaluator", "drop:there") == {name: fact for name, fact in elsewhere.items() if fact}
    assert not asked


def test_an_interrupted_run_says_how_to_resume_and_can_be(cli: Any, engine: Any, task_file: Path) -> None:
    engine.interrupt_after = 9
    result = cli("optimize", task_file)
    assert result.code == 130
    command = result.err.splitlines()[-1].partition("Carry on with: kernelwright ")[2].split()
    assert command[:2] == ["runs", "resume"]
    resumed = cli(*command, "--json")
    assert resumed.code == 0
    assert resumed.json["verified"]


def test_a_resumed_run_keeps_to_every_option_that_it_was_begun_with(
    cli: Any, engine: Any, task_file: Path
) -> None:
    engine.interrupt_after = 9
    words = ["-o", "mine.py", "--report", "mine.html", "--baseline", "eager", "--seed", "7"]
    run_id = cli("optimize", task_file, *words, "--json").json["resume_with"].split()[3]
    resumed = cli("runs", "resume", run_id)
    assert resumed.code == 0
    first = resumed.err.splitlines()[0]
    assert first.startswith(f"carrying on {run_id}: kernelwright optimize {task_file}")
    assert all(word in first for word in ("--output mine.py", "mine.html", "--baseline eager", "--seed 7"))
    assert Path("mine.py").exists() and Path("mine.html").exists()
    assert not Path("relu_fast.py").exists()
    assert f"Again: kernelwright optimize {task_file}" in cli("runs", "show", run_id).out


def test_what_the_machine_failed_at_comes_with_the_line_that_carries_the_run_on(
    cli: Any, engine: Any, task_file: Path
) -> None:
    engine.error, engine.error_after = MachineError("the disk is full"), 12
    result = cli("optimize", task_file, "--json")
    assert result.code == 2
    assert "the disk is full. Carry on with: kernelwright runs resume " in result.json["error"]
    assert "Report: relu_report.html" in result.err
    assert "<h1>" in Path("relu_report.html").read_text(encoding="utf-8")


def test_a_failure_is_told_where_its_report_cannot_be_written(
    cli: Any, engine: Any, task_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise UserError("no room")

    monkeypatch.setattr("kernelwright.report.html.render_report", refuse)
    engine.error, engine.error_after = MachineError("the disk is full"), 12
    result = cli("optimize", task_file, "--json")
    assert result.code == 2 and "the disk is full. Carry on with: " in result.json["error"]


def test_an_interrupted_run_writes_its_best_kernel_so_far_and_marks_it(
    cli: Any, engine: Any, task_file: Path, tmp_path: Path
) -> None:
    engine.interrupt_after = 12
    result = cli("optimize", task_file, "--json")
    assert result.code == 130
    kernel = Path(result.json["kernel"]).read_text(encoding="utf-8")
    assert kernel.startswith("# Interrupted: ") and "not measured again" in kernel.splitlines()[0]
    assert f"kernelwright runs resume {result.json['run_id']}" in kernel.splitlines()[1]
    assert Path(result.json["report"]).exists()
    assert "best so far" in result.err


def test_an_interrupted_run_without_a_faster_kernel_writes_none(
    cli: Any, engine: Any, task_file: Path
) -> None:
    engine.interrupt_after = 2
    result = cli("optimize", task_file, "--json")
    assert result.code == 130 and result.json["kernel"] is None
    assert "nothing faster was verified yet" in result.err


def test_an_interrupted_json_run_still_prints_one_document(cli: Any, engine: Any, task_file: Path) -> None:
    engine.interrupt_after = 3
    result = cli("optimize", task_file, "--json")
    assert result.code == 130
    assert result.json["interrupted"]
