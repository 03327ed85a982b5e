"""Honest kernels: a few of different origins before a real referee; and the corpus they come from."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from lab.honest import Honest, written_by_hand
from lab.trials import Journal, trial_of
from tests.lab.benchmarks.conftest import load_benchmark
from tests.marks import mostly_slow

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, UserError
from kernelwright.core.evaluation import Evaluation, Stage, Status
from kernelwright.core.task import Literal_
from kernelwright.corpus.audit import with_sizes
from kernelwright.referee.device import parse_device
from kernelwright.referee.session.referee import Referee

REPRESENTATIVE = (
    "bias_thread_pool", "bias_python_threads", "bias_workspace", "rowsum_atomic", "matmul_transposed",
    "batchnorm_by_hand", "many_as_list", "view_copied", "turned_as_it_is", "half_float_inside",
    "conv_channels_last_output",
)  # fmt: skip
GOOD = "# title: t\n# origin: torch\n# task: 7_RowSum\nclass ModelNew: pass\n"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return load_benchmark("honest")


@pytest.fixture(scope="module")
def by_hand() -> dict[str, Honest]:
    return {honest.name: honest for honest in written_by_hand()}


@pytest.fixture(scope="module")
def referee(benchmark: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referee]:
    settings = benchmark.RefereeSettings(
        cache_dir=tmp_path_factory.mktemp("cache"), search_timing_s=0.05, batch_s=0.001
    )
    with Referee(settings) as referee:
        yield referee


@pytest.mark.parametrize("name", mostly_slow(REPRESENTATIVE, "rowsum_atomic"))
def test_an_honest_kernel_is_verified(referee: Referee, by_hand: dict[str, Honest], name: str) -> None:
    honest = by_hand[name]
    with referee.open(honest.task) as session:
        evaluation = session.evaluate(Candidate(source=honest.source))
    assert evaluation.is_verified, evaluation.detail


def test_the_corpus_is_large_and_of_many_origins(by_hand: dict[str, Honest]) -> None:
    origins = Counter(honest.origin for honest in by_hand.values())
    assert len(by_hand) >= 100 and len(origins) >= 8
    assert len({honest.source for honest in by_hand.values()}) == len(by_hand)
    for honest in by_hand.values():
        compile(honest.source, honest.name, "exec")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("# title: t\n", ""), "no 'title'"),
        (GOOD.replace("7_RowSum", "7_Nothing"), "no task '7_Nothing'"),
        ("# target: tpu\n" + GOOD, "unknown target 'tpu'"),
        ("# colour: red\n" + GOOD, "colour"),
    ],
)
def test_a_bad_header_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.py").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=words) as error:
        written_by_hand(tmp_path)
    assert "bad.py" in str(error.value)


def test_sizes_in_a_header_bind_the_task(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(GOOD.replace("class", "# sizes: batch_size=3, features=5\nclass"))
    (honest,) = written_by_hand(tmp_path)
    assert honest.task.workloads[0].overrides == {"batch_size": 3, "features": 5}


def test_a_rejection_is_listed_with_its_reason_and_decides_the_exit_code(
    benchmark: ModuleType, by_hand: dict[str, Honest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = [by_hand["rowsum_einsum"], by_hand["rowsum_bmm"]]
    journal = Journal(tmp_path / "work" / "trials.jsonl")
    for honest, detail in zip(pair, ("", "clock disagreement"), strict=True):
        status = Status.REJECTED if detail else Status.INCORRECT_SHAPE
        made = Evaluation(
            candidate_id="c", task_id="t", stage=Stage.TIME, status=status, detail=detail or "shape"
        )
        journal.add(trial_of(honest, 0, made))
    monkeypatch.setattr(benchmark, "gather", lambda *arguments: pair)
    arguments = ["--runs", "1", "--work", str(tmp_path / "work"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["honest.py", *arguments])
    assert benchmark.main() == 1
    document = json.loads((tmp_path / "out" / "honest.json").read_text(encoding="utf-8"))
    assert [row["verified"] for row in document["rows"]] == [0, 0]
    text = (tmp_path / "out" / "honest.md").read_text(encoding="utf-8")
    assert "2 rejections" in text and "clock disagreement" in text


ON_A_DEVICE: dict[str, dict[str, Literal_]] = {
    "gpu_triton_rowsum": {"batch_size": 9, "features": 1027},
    "gpu_triton_bias": {"batch_size": 7, "features": 515},
    "gpu_addmm_halves": {"size": 259},
    "gpu_linear_sum_addmv": {"batch_size": 8, "steps": 16},
    "gpu_conv_channels_last": {
        "batch_size": 3, "in_channels": 8, "out_channels": 16, "height": 33, "width": 35,
    },
}  # fmt: skip
"""Those for a GPU that can be judged without one: Triton's in its interpreter."""
INTERPRETED = """import os, sys
os.environ["TRITON_INTERPRET"] = "1"
for name in list(sys.modules):
    if name.partition(".")[0] == "triton" and not name.startswith("triton._C"):
        del sys.modules[name]
"""
"""Torch has imported triton by then, and what Triton's library has of kernels is as it was on import."""


@pytest.fixture(scope="module")
def apart(benchmark: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referee]:
    settings = benchmark.RefereeSettings(
        cache_dir=tmp_path_factory.mktemp("cache"), search_timing_s=0.05, batch_s=0.001, device="copied"
    )
    with Referee(settings) as referee:
        yield referee


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_A_DEVICE)
def test_an_honest_kernel_for_a_gpu_is_verified_on_the_stand_in(
    apart: Referee, by_hand: dict[str, Honest], name: str
) -> None:
    honest = by_hand[name]
    is_triton = honest.origin == "Triton"
    if is_triton:
        pytest.importorskip("triton")
    task = with_sizes(honest.task, ON_A_DEVICE[name])
    with apart.open(task) as session:
        evaluation = session.evaluate(Candidate(source=INTERPRETED * is_triton + honest.source))
    assert evaluation.is_verified, evaluation.detail


def test_kernels_for_a_gpu_are_left_to_it(
    benchmark: ModuleType, by_hand: dict[str, Honest], tmp_path: Path
) -> None:
    names = {
        device: {
            h.name
            for h in benchmark.gather(benchmark.Preparing(tmp_path, parse_device(device)), 0, "*", None)
        }
        for device in ("cpu", "cuda:1", "hip")
    }
    assert names["cuda:1"] == names["hip"] == {name for name in by_hand if name.startswith("gpu_")}
    assert names["cpu"] == set(by_hand) - names["hip"] and names["hip"] > set(ON_A_DEVICE)


def test_an_interrupted_command_leaves_a_table_of_what_it_has(
    benchmark: ModuleType, by_hand: dict[str, Honest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = [by_hand["rowsum_einsum"], by_hand["rowsum_bmm"]]

    def judge_one(kernels: list[Honest], runs: int, journal: Journal, *more: object) -> None:
        made = Evaluation(candidate_id="c", task_id="t", stage=Stage.DONE, status=Status.VERIFIED)
        journal.add(trial_of(kernels[0], 0, made))
        raise KeyboardInterrupt

    monkeypatch.setattr(benchmark, "gather", lambda *arguments: pair)
    monkeypatch.setattr(benchmark, "judge_all", judge_one)
    arguments = ["--runs", "1", "--work", str(tmp_path), "--out", str(tmp_path), "--device", "cuda"]
    monkeypatch.setattr(sys, "argv", ["honest.py", *arguments])
    assert benchmark.main() == 130
    document = json.loads((tmp_path / "honest.json").read_text(encoding="utf-8"))
    assert [row["verified"] for row in document["rows"]] == [1, 0] and document["left"] == 1
    assert "--device cuda" in document["command"] and document["device"] == "cuda:0"


def test_a_machine_at_fault_is_no_result(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object) -> None:
        raise MachineError("no device")

    monkeypatch.setattr(benchmark, "gather", refuse)
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["honest.py", "--work", str(tmp_path), "--out", str(out)])
    assert benchmark.main() == 2 and "honest: no device" in capsys.readouterr().err
    assert not out.exists()
