"""The whole way to a verdict where tensors live in memory of their own, in real workers.

On the processor, and, where there is one, on a GPU.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.marks import first_quick
from tests.referee.conftest import HEAD, LINEAR, POINTWISE, judge

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError
from kernelwright.core.evaluation import Check, Stage, Status
from kernelwright.core.task import Task, TolerancePolicy
from kernelwright.referee.checks import replay
from kernelwright.referee.checks.replay_statistics import ON_A_GPU, PassSize
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.pair import disturbance
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.statistics import Samples

HONEST = "return torch.relu(x) * 2 + 1"
CACHE_BYTES = 64 << 10
"""So that every argument set has copies, as small ones have on a GPU."""


@pytest.fixture(scope="module", params=["copied", pytest.param("gpu", marks=pytest.mark.gpu)])
def apart(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referee]:
    device = str(request.param)
    if device == "gpu":
        if not torch.cuda.is_available():
            pytest.skip("no GPU that torch can use")
        device = "hip" if torch.version.hip else "cuda"
    settings = RefereeSettings(
        cache_dir=tmp_path_factory.mktemp("cache"), search_timing_s=0.1, final_timing_s=0.2, batch_s=0.001,
        call_timeout_s=10.0, device=device, device_cache_bytes=CACHE_BYTES,
    )  # fmt: skip
    with Referee(settings) as referee:
        yield referee


@pytest.fixture(scope="module")
def session(apart: Referee) -> Iterator[RefereeSession]:
    with apart.open(Task(name="pointwise", source=POINTWISE)) as session:
        yield session


def test_an_honest_kernel_is_verified_timed_and_replayed(session: RefereeSession) -> None:
    evaluation = session.evaluate(
        Candidate(source=POINTWISE.replace("class Model(", "class ModelNew(")),
        baselines=("eager", "eager_tf32"),
    )
    assert (evaluation.status, evaluation.stage) == (Status.VERIFIED, Stage.DONE), evaluation.detail
    (result,) = evaluation.results
    assert set(result.baselines) == {"eager", "eager_tf32"}
    assert {error.family for error in evaluation.errors} >= {"as_is", "heavy_tail", "coarse"}


TRITON = f"""
INTERPRETED
{HEAD}
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + place, mask=place < n)
    tl.store(y + place, tl.where(value < 0, 0.0, value) * 2 + 1, mask=place < n)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""


def test_a_kernel_in_triton_is_verified(session: RefereeSession, apart: Referee) -> None:
    pytest.importorskip("triton")
    is_real = apart.settings.device != "copied"
    interpreted = "" if is_real else "import os\nos.environ['TRITON_INTERPRET'] = '1'"
    evaluation = session.evaluate(Candidate(source=TRITON.replace("INTERPRETED", interpreted)))
    assert evaluation.is_verified, evaluation.detail


@pytest.mark.slow
def test_weights_and_buffers_live_there_too_and_finals_hold(apart: Referee) -> None:
    task = Task(name="linear", source=LINEAR)
    with apart.open(task) as session:
        source = LINEAR.replace("class Model(", "class ModelNew(")
        evaluation = session.evaluate(Candidate(source=source), final=True)
        assert evaluation.is_verified and evaluation.is_final, evaluation.detail
        folded = source.replace("self.norm(self.lin(x))", "self.lin(x)")
        assert session.evaluate(Candidate(source=folded)).status is Status.INCORRECT_NUMERICS


@pytest.mark.parametrize(
    ("body", "init", "status", "checks"),
    [
        pytest.param("return torch.relu(x) * 2", "", Status.INCORRECT_NUMERICS, {Check.ORACLE}, id="wrong"),
        pytest.param(
            "self.y = torch.relu(x) * 2 + 1 if self.y is None else self.y\nreturn self.y.clone()",
            "self.y = None",
            Status.INCORRECT_NUMERICS,
            {Check.ORACLE},
            id="answers with what it had",
        ),
        pytest.param(
            "self.x = x if self.x is None else self.x\nreturn torch.relu(self.x) * 2 + 1",
            "self.x = None",
            Status.INCORRECT_NUMERICS,
            {Check.ORACLE, Check.FAMILIES},
            id="plans with the first addresses",
        ),
        pytest.param(
            "self.y = torch.empty_like(x) if self.y is None else self.y\n"
            "return torch.add(torch.relu(x) * 2, 1, out=self.y)",
            "self.y = None",
            Status.ALIASED_OUTPUT,
            {Check.STORAGE},
            id="gives the same memory again",
        ),
        pytest.param(
            "return x.relu_().mul_(2).add_(1).clone()",
            "",
            Status.MUTATED_INPUT,
            {Check.INPUTS},
            id="computes in its input",
        ),
        pytest.param(
            "y = torch.relu(x) * 2 + 1\nx.as_strided((x.numel() + 1,), (1,))[-1] = 0\nreturn y",
            "",
            Status.MUTATED_INPUT,
            {Check.INPUTS},
            id="writes beyond its input",
        ),
        pytest.param(
            "return torch.as_strided(x, (64 * 96 + 1,), (1,))[1:].view(64, 96).relu() * 2 + 1",
            "",
            Status.INCORRECT_NUMERICS,
            {Check.ORACLE, Check.FORM},
            id="reads beyond its input",
        ),
        pytest.param(
            "y = torch.empty_like(x)\ny[:-1] = torch.relu(x[:-1]) * 2 + 1\nreturn y",
            "",
            Status.INCORRECT_NUMERICS,
            {Check.ORACLE, Check.FORM},
            id="leaves a row unwritten",
        ),
    ],
)
def test_what_is_found_on_the_processor_is_found_there(
    session: RefereeSession, body: str, init: str, status: Status, checks: set[Check]
) -> None:
    evaluation = judge(session, body, init=init)
    assert evaluation.status in (status, *_non_finite(body)), evaluation.detail
    assert evaluation.check in checks, evaluation.check


def _non_finite(body: str) -> tuple[Status, ...]:
    """What lies beyond an input, or in memory that was not written to, reads as NaN or as a huge number."""
    return (Status.NON_FINITE,) if "as_strided" in body or "empty_like" in body else ()


def test_work_that_goes_on_after_the_return_is_found(session: RefereeSession) -> None:
    source = f"""{HEAD}
import threading, time
class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        def work():
            time.sleep(0.5)
            y.copy_(torch.relu(x) * 2 + 1)
        threading.Thread(target=work).start()
        return y
"""
    evaluation = session.evaluate(Candidate(source=source))
    assert not evaluation.is_verified and evaluation.status is Status.INCORRECT_NUMERICS, evaluation.detail


DEFERS = f"""{HEAD}
from concurrent.futures import ThreadPoolExecutor
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool, self.n = ThreadPoolExecutor(1), 0
    def forward(self, x):
        self.n += 1
        y = torch.empty_like(x)
        done = self.pool.submit(self.work, x, y)
        if self.n <= 40:
            done.result()
        return y
    def work(self, x, y):
        torch.add(torch.relu(x) * 2, 1, out=y)
"""


def test_work_that_a_thread_begins_soon_after_timed_calls_comes_too_late(session: RefereeSession) -> None:
    evaluation = session.evaluate(Candidate(source=DEFERS))
    assert not evaluation.is_verified, evaluation.geomean_speedup()


@pytest.mark.parametrize("numbers", [None, [9], ["2"], {"2": 2}], ids=str)
def test_calls_that_were_not_made_cannot_be_named(numbers: Any) -> None:
    worker: Any = SimpleNamespace(_call=lambda *given: {"numbers": numbers}, _call_timeout_s=1.0)
    with pytest.raises(Failure, match="malformed"):
        CandidateProcess._taken(worker, range(3))


@pytest.mark.parametrize(
    ("candidate_ms", "beside_ms", "alone_ms", "is_found"),
    [(0.95, 2.0, 1.0, True), (0.95, 1.5, 1.0, False), (0.7, 2.0, 1.0, False), (2.0, 1.0, 1.0, False)],
    ids=["slows eager down", "a little", "is faster all the same", "is slower"],
)
def test_a_reference_that_is_faster_alone_was_disturbed(
    candidate_ms: float, beside_ms: float, alone_ms: float, is_found: bool
) -> None:
    samples = Samples(candidate=(candidate_ms,) * 3, baselines={"eager": (beside_ms,) * 3}, calls={})
    assert (disturbance(samples, alone_ms) is not None) == is_found


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use")
def test_work_on_a_stream_that_the_callers_does_not_wait_for_comes_too_late(
    session: RefereeSession, apart: Referee
) -> None:
    if apart.settings.device == "copied":
        pytest.skip("only a GPU has streams")
    body = (
        "y = torch.empty_like(x)\n"
        "with torch.cuda.stream(self.side):\n"
        "    torch.cuda._sleep(1_000_000)\n"
        "    torch.add(torch.relu(x) * 2, 1, out=y)\n"
        "y.record_stream(self.side)\n"
        "return y"
    )
    evaluation = judge(session, body, init="self.side = torch.cuda.Stream()")
    assert not evaluation.is_verified
    joined = body.replace("y.record", "torch.cuda.current_stream().wait_stream(self.side)\ny.record")
    evaluation = judge(session, joined, init="self.side = torch.cuda.Stream()")
    assert evaluation.is_verified, evaluation.detail


def test_an_input_written_to_only_in_timed_calls_is_found_at_all_its_places(session: RefereeSession) -> None:
    body = "self.n += 1\nif self.n > 60:\n    x[0, 0] = 7\nreturn torch.relu(x) * 2 + 1"
    evaluation = judge(session, body, init="self.n = 0")
    assert not evaluation.is_verified
    assert evaluation.status in (Status.MUTATED_INPUT, Status.INCORRECT_NUMERICS, Status.REJECTED)


FIND = (
    "import gc; from kernelwright.referee.worker.placement import Bystander, DevicePlacement as P; "
    "p = next(o for o in gc.get_objects() if isinstance(o, P)); "
)


@pytest.mark.parametrize(
    "words",
    [
        FIND + "p.synchronise = lambda: None",
        FIND + "p._driver = Bystander()",
        "torch.backends.cudnn.allow_tf32 = not torch.backends.cudnn.allow_tf32",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.backends.cudnn.benchmark = True",
        "setattr(torch.cuda.Event, 'elapsed_time', lambda self, other: 0.0)",
        "setattr(torch.cuda, 'synchronize', lambda device=None: None)",
        "import kernelwright.referee.worker.placement as p; p.DevicePlacement.settle = lambda self: None",
        "import kernelwright.referee.worker.driver as d; d.Cuda.synchronise = lambda self: None",
    ],
)
def test_switches_clocks_and_waiting_are_not_a_candidates_to_change(
    session: RefereeSession, words: str
) -> None:
    evaluation = judge(session, HONEST, init=words)
    assert (evaluation.status, evaluation.check) == (Status.REJECTED, Check.TAMPER), evaluation.detail


def test_where_the_task_allows_tf32_it_is_switched_on_for_the_candidate_alone(apart: Referee) -> None:
    task = Task(name="pointwise", source=POINTWISE, tolerance=TolerancePolicy.TF32)
    body = "assert torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32\n" + HONEST
    with apart.open(task) as allowing:
        evaluation = judge(allowing, body)
    assert evaluation.is_verified, evaluation.detail


def test_the_reference_computes_without_tf32_whatever_the_task_allows(apart: Referee) -> None:
    own = POINTWISE.replace(
        "        return", "        assert not torch.backends.cudnn.allow_tf32\n        return"
    )
    with apart.open(Task(name="own", source=own, tolerance=TolerancePolicy.TF32)) as session:
        evaluation = judge(session, HONEST)
    assert evaluation.is_verified, evaluation.detail


def test_a_strict_task_starts_its_candidates_without_tf32(session: RefereeSession) -> None:
    body = "assert not torch.backends.cuda.matmul.allow_tf32 and not torch.backends.cudnn.allow_tf32\n"
    evaluation = judge(session, body + HONEST)
    assert evaluation.is_verified, evaluation.detail


def test_an_output_elsewhere_is_not_the_references(session: RefereeSession) -> None:
    evaluation = judge(session, "return (torch.relu(x) * 2 + 1).to('meta')")
    assert evaluation.status is Status.INCORRECT_DTYPE
    assert "on the device meta instead of " in evaluation.detail


def test_baselines_of_a_device_are_not_the_processors(pointwise: RefereeSession) -> None:
    words = "unknown baseline 'eager_tf32'; known: eager, torch_compile"
    with pytest.raises(MachineError, match=words):
        judge_with(pointwise, "eager_tf32")


def judge_with(session: RefereeSession, baseline: str) -> None:
    source = POINTWISE.replace("class Model(", "class ModelNew(")
    session.evaluate(Candidate(source=source), baselines=(baseline,))


SEES_THAT_OUTPUTS_ARE_KEPT = f"""{HEAD}
import weakref
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.given = weakref.WeakSet()
    def forward(self, x):
        y = torch.relu(x) * 2 + 1
        if len(self.given) > 300:
            y.zero_()
        self.given.add(y)
        return y
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "status"),
    first_quick([(ON_A_GPU, Status.REJECTED), (None, Status.VERIFIED)]),
)
def test_passes_as_on_a_gpu_have_many_more_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: PassSize | None, status: Status
) -> None:
    """It is wrong from the 301st output on that is kept: nobody keeps so many elsewhere."""
    monkeypatch.setattr(replay, "PASS_S", 1.0)  # a busy machine takes too long for so many calls
    settings = RefereeSettings(
        cache_dir=tmp_path, search_timing_s=0.05, batch_s=0.001, device="copied", replay_size=size
    )
    with Referee(settings) as referee, referee.open(Task(name="pointwise", source=POINTWISE)) as session:
        evaluation = session.evaluate(Candidate(source=SEES_THAT_OUTPUTS_ARE_KEPT))
        honest = judge(session, HONEST)
    assert evaluation.status is status, evaluation.detail
    assert evaluation.check is (Check.REPLAY if status is Status.REJECTED else None)
    assert honest.is_verified, honest.detail
