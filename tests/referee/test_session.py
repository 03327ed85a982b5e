"""Honest kernels, limits, and what is refused at admission."""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.referee.conftest import HEAD, POINTWISE, judge

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError
from kernelwright.core.evaluation import Stage, Status
from kernelwright.core.roofline import Floor, Work, floor
from kernelwright.core.task import Mode, Task, TolerancePolicy, Workload
from kernelwright.referee.checks.floor import FloorCheck, FloorOf
from kernelwright.referee.session import context
from kernelwright.referee.session.candidate_process import CandidateProcess
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.testing.fake_run import PEAKS

HONEST = "return torch.relu(x) * 2 + 1"
SAME = POINTWISE.replace("class Model(", "class ModelNew(")


def test_what_compilers_keep_has_places_of_the_candidates_own(pointwise: RefereeSession) -> None:
    make = """
import os
for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"):
    os.makedirs(os.environ[name])
"""
    for _ in range(2):  # the second finds nothing of the first
        evaluation = judge(pointwise, HONEST, init=make)
        assert evaluation.is_verified, evaluation.detail


def test_whoever_puts_the_state_of_the_random_generator_back_changes_nothing(
    pointwise: RefereeSession,
) -> None:
    put_back = "torch.set_rng_state(torch.get_rng_state())"
    evaluation = judge(pointwise, f"{put_back}; {HONEST}")
    assert evaluation.is_verified, evaluation.detail


def test_an_honest_kernel_is_verified_on_every_family(pointwise: RefereeSession) -> None:
    evaluation = judge(pointwise, HONEST)
    assert (evaluation.status, evaluation.stage) == (Status.VERIFIED, Stage.DONE), evaluation.detail
    families = {error.family for error in evaluation.errors}
    whole = {"as_is", "scaled", "negated", "sparse_spikes", "heavy_tail", "offset", "coarse", "permuted"}
    whole |= {"far", "positive", "zeros", "flat", "sorted", "mild_rows", "mild_elements"}
    assert families == whole | {"odd_rows", "few_odd_rows", "odd_elements", "nonfinite"} | families & {
        "mixed"
    }
    assert set(evaluation.phases_s) - {"waiting"} == {"build", "load", "verify", "time", "replay"}
    (result,) = evaluation.results
    assert result.candidate.n_samples >= 3 and result.candidate.median_ms > 0
    speedup = result.speedup("eager")
    assert speedup is not None and speedup.low <= speedup.ratio <= speedup.high


@pytest.mark.slow
def test_the_final_measurement_uses_fresh_processes(pointwise: RefereeSession) -> None:
    evaluation = pointwise.evaluate(Candidate(source=SAME), final=True)
    assert evaluation.is_verified and evaluation.is_final, evaluation.detail
    speedup = evaluation.results[0].speedup("eager")
    assert speedup is not None and speedup.low <= speedup.ratio <= speedup.high


def test_a_library_is_built_before_the_candidate_loads(pointwise: RefereeSession) -> None:
    source = f"""{HEAD}
import ctypes, hashlib, os
CPP_SOURCE = '''extern "C" void run(const float* x, float* y, long n) {{
  for (long i = 0; i < n; i++) y[i] = (x[i] < 0 ? 0 : x[i]) * 2 + 1;
}}'''
CXX_FLAGS = ("-O3", "-march=native")
key = hashlib.sha256("\\n".join([CPP_SOURCE, *CXX_FLAGS]).encode()).hexdigest()[:32]
lib = ctypes.CDLL(os.path.join(os.environ["KERNELWRIGHT_BUILD_CACHE"], key + ".so"))
lib.run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.run(x.data_ptr(), y.data_ptr(), x.numel())
        return y
"""
    evaluation = pointwise.evaluate(Candidate(source=source))
    assert evaluation.is_verified, evaluation.detail
    cached = pointwise.evaluate(Candidate(source=source + "# the same library"))
    assert evaluation.facts["compiler.loops"]
    for name in (name for name in evaluation.facts if name.startswith("compiler.")):
        assert cached.facts[name] == evaluation.facts[name]


def test_memory_of_outputs_that_were_released_may_be_used_again(
    pointwise: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = CandidateProcess.run

    def run_after_releases(worker: CandidateProcess, sets: Sequence[str], **options: Any) -> None:
        for _ in range(8):
            run(worker, sets[:1])
            worker.keep_last(2)
        run(worker, sets[:1])
        worker.keep_last()
        run(worker, sets, **options)

    monkeypatch.setattr(CandidateProcess, "run", run_after_releases)
    evaluation = pointwise.evaluate(Candidate(source=SAME))
    assert evaluation.is_verified, evaluation.detail


def test_a_search_evaluation_says_what_threads_gain(referee: Referee, pointwise: RefereeSession) -> None:
    """Other work can make it unknown, hence the attempts."""
    searched = (pointwise.evaluate(Candidate(source=SAME)) for _ in range(5))
    said = (one.facts.get("run.thread_scaling") for one in searched)
    if referee.settings.n_threads == 1:
        assert next(said) is None
    else:
        assert any(isinstance(scaling, float) and scaling > 0 for scaling in said)


def test_faster_than_the_floor_is_rejected_when_new_peaks_say_so_too(
    pointwise: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    impossible = Floor(ms=1e6, bound_by="memory", work=Work(flops=1, min_bytes=10**15))
    workers: list[CandidateProcess] = []
    alive: list[bool] = []

    class Kept(CandidateProcess):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            workers.append(self)

    def measure_again() -> FloorOf:
        alive.extend(Path(f"/proc/{worker.child.pid}").exists() for worker in workers)
        return lambda work: floor(work, PEAKS)

    monkeypatch.setattr(context, "CandidateProcess", Kept)
    monkeypatch.setattr(pointwise, "_floors", FloorCheck(1.25, measure_again))
    evaluation = pointwise.evaluate(Candidate(source=SAME), floors={"default": impossible})
    assert evaluation.status is Status.REJECTED and "measured again" in evaluation.detail
    assert alive and not any(alive)


def test_peaks_that_were_measured_too_low_reject_nobody(
    pointwise: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = Floor(ms=1e6, bound_by="memory", work=Work(flops=1, min_bytes=1))
    monkeypatch.setattr(pointwise, "_floors", FloorCheck(1.25, lambda: lambda work: floor(work, PEAKS)))
    evaluation = pointwise.evaluate(Candidate(source=SAME), floors={"default": stale})
    assert evaluation.is_verified, evaluation.detail
    assert evaluation.results[0].floor_was_ms == 1e6 and (evaluation.results[0].floor_ms or 1e6) < 1.0
    assert any("our error" in note for note in evaluation.notes)


@pytest.mark.slow
def test_an_endless_loop_is_killed_with_its_group(referee: Referee, tmp_path: Path) -> None:
    settings = replace(referee.settings, cache_dir=tmp_path, load_timeout_s=8.0, call_timeout_s=1.0)
    with Referee(settings) as impatient, impatient.open(Task(name="t", source=POINTWISE)) as session:
        mark = f"600.{os.getpid():08d}"
        body = f"""
import subprocess
subprocess.Popen(["sleep", "{mark}"])
while True: pass
"""
        evaluation = judge(session, body)
        assert evaluation.status is Status.TIMEOUT
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                assert mark.encode() not in (folder / "cmdline").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="no final times one thread of one alone")
@pytest.mark.parametrize("is_new", ["torch.get_num_threads() != self.threads", "self.calls > 60"])
def test_only_the_first_call_with_a_number_of_threads_may_take_as_long_as_a_compiler(
    referee: Referee, tmp_path: Path, is_new: str
) -> None:
    settings = replace(referee.settings, cache_dir=tmp_path, load_timeout_s=60.0, call_timeout_s=1.0)
    source = f"""{HEAD}
import time
class ModelNew(nn.Module):
    threads, calls = None, 0
    def forward(self, x):
        self.calls += 1
        if {is_new}:
            time.sleep(2.5)
            self.threads = torch.get_num_threads()
        return torch.relu(x) * 2 + 1
"""
    with Referee(settings) as impatient, impatient.open(Task(name="t", source=POINTWISE)) as session:
        evaluation = session.evaluate(Candidate(source=source), final=True)
    assert (evaluation.status is Status.TIMEOUT) == ("calls" in is_new), evaluation.detail
    assert evaluation.is_verified == ("threads" in is_new), evaluation.detail


def test_closing_leaves_no_process(referee: Referee, tmp_path: Path) -> None:
    other = Referee(replace(referee.settings, cache_dir=tmp_path))
    session = other.open(Task(name="t", source=POINTWISE))
    pid = session._references[0].child.pid
    other.close()
    _wait_until_gone(pid)


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return
        if state in "ZX":
            return
        time.sleep(0.01)
    os.kill(pid, 9)
    raise AssertionError(f"process {pid} is still there")


@pytest.mark.slow
def test_several_workloads_are_each_verified_and_timed(referee: Referee) -> None:
    workloads = (Workload(name="small", overrides={"N": 8}), Workload(name="wide", overrides={"K": 128}))
    task = Task(name="two", source=POINTWISE, workloads=workloads)
    with referee.open(task) as session:
        assert set(session.baseline_ms) == {"small", "wide"}
        evaluation = judge(session, HONEST)
        assert [result.workload for result in evaluation.results] == ["small", "wide"]
        fixed = judge(session, "return torch.relu(x[:8].reshape(8, -1)[:, :96]) * 2 + 1")
        assert fixed.status is Status.INCORRECT_SHAPE


def test_integers_tuples_and_literals_pass_through(referee: Referee) -> None:
    source = f"""{HEAD}
class Model(nn.Module):
    def __init__(self, sizes, dtype, table):
        super().__init__()
        self.sizes, self.dtype, self.table = sizes, dtype, table
    def forward(self, x, index, scale):
        y = (x * scale + self.table)[:, index]
        return y.to(self.dtype), y.argmax(dim=1)
def get_inputs():
    return [torch.rand(16, 32).T.contiguous().T, torch.randint(0, 32, (8,)), 3.5]
def get_init_inputs():
    return [[1, (2, 3)], torch.float32, torch.arange(32.0)]
"""
    with referee.open(Task(name="mixed", source=source)) as session:
        honest = session.evaluate(Candidate(source=source.replace("class Model(", "class ModelNew(")))
        assert honest.is_verified, honest.detail
        wrong = source.replace("class Model(", "class ModelNew(").replace(
            "y.argmax(dim=1)", "y.argmin(dim=1)"
        )
        assert session.evaluate(Candidate(source=wrong)).status is Status.INCORRECT_NUMERICS


def test_a_family_where_the_reference_is_not_finite_is_skipped_with_the_reason(referee: Referee) -> None:
    source = POINTWISE.replace("torch.relu(x) * 2 + 1", "torch.log(x + 0.001)")
    with referee.open(Task(name="log", source=source)) as session:
        evaluation = judge(session, "return torch.log(x + 0.001)")
    assert evaluation.is_verified, evaluation.detail
    assert "negated" in evaluation.families_skipped
    assert all("NaN" in why for why in evaluation.families_skipped.values())


def test_the_bf16_policy_permits_what_strict_does_not(referee: Referee) -> None:
    task = Task(name="loose", source=POINTWISE, tolerance=TolerancePolicy.BF16)
    with referee.open(task) as session:
        assert judge(session, "return torch.relu(x.bfloat16().float()) * 2 + 1").is_verified
        assert judge(session, "return torch.relu(x) * 2 + 1.2").status is Status.INCORRECT_NUMERICS


ILL_CONDITIONED = "return torch.sin(x * 1024)"
"""The product is exact: the reference has no error, and another order of the same sum has."""


def test_an_honest_order_passes_where_much_hangs_on_last_bits_and_fewer_bits_do_not(referee: Referee) -> None:
    task = Task(name="ill_conditioned", source=_model(ILL_CONDITIONED, inputs="torch.rand(64, 300)"))
    with referee.open(task) as session:
        honest = judge(session, "return torch.sin(x * 1000 + x * 24)")
        assert honest.status is Status.VERIFIED, honest.detail
        rounded = judge(
            session, "return torch.sin((x.view(torch.int32) & ~0xFFF).view(torch.float32) * 1024)"
        )
        assert rounded.status is Status.INCORRECT_NUMERICS, rounded.detail


def _model(forward: str, init: str = "pass", inputs: str = "torch.rand(4, 8)") -> str:
    return f"""{HEAD}
batch_size = 4
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        {forward}
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (_model("raise ValueError('odd shape')"), "odd shape"),
        (_model("return x", init="raise OSError('no file')"), "no file"),
        (_model("return x.tolist()"), "not a plain tensor"),
        (_model("return torch.log(-x - 1)"), "NaN or infinity"),
        (_model("return torch.dropout(x, 0.5, self.training)"), "not deterministic"),
        (_model("self.n += 1; return x * self.n", init="self.n = 0"), "not deterministic"),
        (
            _model("self.m += x.sum(); return x - self.m", init="self.register_buffer('m', torch.ones(()))"),
            "state carried from call to call",
        ),
        (_model("return x", inputs="object()"), "cannot be sent"),
        (
            _model("return x + 1", inputs="torch.rand(batch_size * 20_000_000, 1_000)"),
            "scale the global `batch_size`",
        ),
        (_model("import ctypes; ctypes.string_at(0)"), "SIGSEGV"),
        ("import nothing_of_that_name", "nothing_of_that_name"),
        ("x = 1", "Model"),
    ],
)
def test_tasks_without_one_right_answer_are_refused_in_one_line(
    referee: Referee, source: str, words: str
) -> None:
    with pytest.raises(TaskError) as caught:
        referee.open(Task(name="bad", source=source))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_eval_mode_admits_dropout(referee: Referee) -> None:
    source = _model("return torch.dropout(x, 0.5, self.training) * 2")
    with referee.open(Task(name="calm", source=source, mode=Mode.EVAL)) as session:
        assert judge(session, "return x * 2").is_verified
