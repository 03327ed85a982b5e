"""Runs for a GPU where there is none: compilers judge first, and what they say reaches diagnosis and report.

The referee is scripted: no figure here was measured.
"""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.api import playing
from kernelwright.api.machines import bound_settings
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Check, Evaluation, Stage, Status
from kernelwright.core.events import CandidateEvaluated, Diagnosed
from kernelwright.core.evidence import FactValue
from kernelwright.core.machine import Machine
from kernelwright.core.models import ModelSettings
from kernelwright.core.request import DEFAULT_RECIPE
from kernelwright.core.run import RunSpec
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.report.html import render_report
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.evaluators import JUST_THE_REFEREE, Around
from kernelwright.runs.inspecting import InspectingEvaluator, Inspector, Profiler
from kernelwright.runs.loop import RunOutcome
from kernelwright.runs.prepare import gpu_of, prepare_on
from kernelwright.runs.recording import Recording
from kernelwright.settings import Settings, load_settings
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.targets.gpu import peaks as gpu_peaks
from kernelwright.targets.gpu.facts import GPUS
from kernelwright.targets.gpu.inspect.ahead import AotCheck
from kernelwright.targets.gpu.profilers import take
from kernelwright.targets.gpu.profilers.profile import Profiled
from kernelwright.targets.registry import target_of
from kernelwright.testing.fake_run import PEAKS, FakeReferee

SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x * 2.0, dim=1)
def get_inputs():
    return [torch.rand(64, 512)]
def get_init_inputs():
    return []
"""
TASK = Task(name="softmax", source=SOURCE)
FACTS: dict[str, FactValue] = {
    "aot.registers": 255,
    "aot.spills": 40,
    "gpu.waves": 0.1,
    "aot.occupancy_limit": "registers",
}
BAD = AotCheck(
    problem="k: cannot launch: too large (sm_90, h200-sxm)", note="built ahead: 1 of 1 kernels cannot"
)
FINE = AotCheck(
    facts=FACTS,
    by_kernel={"hot": {**FACTS, "aot.registers": 96}},
    note="built ahead for sm_90, h200-sxm: 1 kernel, all fit",
)


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: False)
    monkeypatch.setattr(playing, "TIMEOUT_S", 3000.0)  # a busy machine is no fault of the candidate's


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "runs.db"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings(), cache_dir=tmp_path / "cache")


class Stub:
    """Stands in for the compilers: every candidate spills, and the third cannot be launched."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, task: Task, candidate: Candidate) -> AotCheck:
        assert candidate.source not in self.asked, "a candidate is looked at once"
        self.asked.append(candidate.source)
        return BAD if len(self.asked) == 3 else FINE


class StubProfiler:
    """Stands in for a profiler: another kernel than the heaviest one takes the most time."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, task: Task, candidate: Candidate) -> Profiled:
        assert candidate.source not in self.asked, "a candidate is profiled once"
        self.asked.append(candidate.source)
        return Profiled(
            facts={"gpu.dram_fraction": 0.97, "gpu.launches": 2.0}, hottest="hot", note="profiled by stub"
        )


def play(
    store: Store,
    settings: Settings,
    referee: Evaluator | None,
    n: int,
    inspect: Inspector | None,
    profile: Profiler | None = None,
    gpu: str = "h200",
    around: Around = JUST_THE_REFEREE,
) -> RunOutcome:
    spec = RunSpec(
        task=TASK,
        target=TargetName.parse("cuda/triton"),
        recipe=DEFAULT_RECIPE,
        budget=Budget(evaluations=n),
        environment={"gpu": gpu},
        is_cold=True,
    )
    return playing.play(
        spec,
        store=store,
        settings=settings,
        referee=referee,
        around=around,
        prepare=lambda spec, cache: prepare_on(spec, Machine(cores=2, peaks=PEAKS), gpu_of(spec, cache)),
        inspect=inspect,
        profile=profile,
    )


def evaluations(store: Store, run_id: str) -> list[Evaluation]:
    events = (stored.event for stored in store.iter_events(run_id))
    return [event.evaluation for event in events if isinstance(event, CandidateEvaluated)]


def test_compilers_and_profilers_are_asked_and_heard(store: Store, settings: Settings) -> None:
    referee, stub, profiler = FakeReferee({}), Stub(), StubProfiler()
    run_id = play(store, settings, referee, 8, stub, profiler).run_id
    found = evaluations(store, run_id)

    (refused,) = [evaluation for evaluation in found if not evaluation.is_verified]
    assert (refused.status, refused.stage, refused.check) == (Status.COMPILE_ERROR, Stage.BUILD, Check.BUILD)
    assert refused.detail == BAD.problem and refused.notes == (BAD.note,)
    assert {source for source, _ in referee.asked} == {*stub.asked} - {stub.asked[2]}
    assert set(profiler.asked) <= {source for source, _ in referee.asked}

    diagnosed = [e.event for e in store.iter_events(run_id) if isinstance(e.event, Diagnosed)]
    assert diagnosed
    for event in diagnosed:
        facts = event.evidence.facts
        assert facts["aot.registers"] == 96, "of the kernel that the profiler found the hottest"
        assert facts["gpu.dram_fraction"] == 0.97 and facts["gpu.architecture"] == "sm_90"
        assert facts["machine.bandwidth_gbps"] == 4800 and "machine.n_threads" not in facts
        assert {"gpu.waves", "gpu.dram_fraction"} <= {reason.metric for reason in event.diagnosis.reasons}

    page = render_report(store, run_id)
    assert FINE.note in page and "profiled by stub" in page
    assert "<td>aot.occupancy_limit</td><td>registers</td>" in page


def test_what_is_served_is_neither_built_nor_profiled_again(store: Store, settings: Settings) -> None:
    recording, stub, profiler = Recording(), Stub(), StubProfiler()
    kept = Around(recording=recording)
    ways = [(FakeReferee({}), kept), (FakeReferee({}), kept), (None, replace(kept, is_measured=False))]
    runs = [play(store, settings, judge, 4, stub, profiler, around=around) for judge, around in ways]
    first, *later = [evaluations(store, run.run_id) for run in runs]
    assert [found.status for found in first].count(Status.COMPILE_ERROR) == 1
    assert later == [first, first] and len(recording) == len(first)


def test_only_the_fastest_so_far_are_profiled_and_finals_are_not_profiled_again() -> None:
    profiler = StubProfiler()
    judge = InspectingEvaluator(
        FakeReferee({"a": 1.5, "b": 1.2, "c": 2.0}), lambda task, candidate: FINE, profiler
    )
    with judge.open(TASK) as session:
        notes = [len(session.evaluate(Candidate(source=name)).notes) for name in "abc"]
        last = session.evaluate(Candidate(source="c"), final=True)
    assert profiler.asked == ["a", "c"] and notes == [2, 1, 2]
    assert last.is_final and last.facts["gpu.dram_fraction"] == 0.97


@pytest.mark.parametrize(
    ("hottest", "registers", "spills", "waves"),
    [("hot", 96, 40, 0.1), ("sm90_xmma_gemm_f32f32", None, None, None), (None, 255, 40, 0.1)],
)
def test_what_compilers_said_is_of_the_kernel_that_was_profiled(
    hottest: str | None, registers: int | None, spills: int | None, waves: float | None
) -> None:
    ahead = FINE.model_copy(update={"facts": {**FACTS, "gpu.units": 132}})
    profiled = Profiled(facts={"gpu.dram_fraction": 0.5}, hottest=hottest, note="profiled by stub")
    judge = InspectingEvaluator(
        FakeReferee({}), lambda task, candidate: ahead, lambda task, candidate: profiled
    )
    with judge.open(TASK) as session:
        facts = session.evaluate(Candidate(source="a")).facts
    seen = tuple(facts.get(name) for name in ("aot.registers", "aot.spills", "gpu.waves"))
    assert seen == (registers, spills, waves)
    assert (facts["gpu.units"], facts["gpu.dram_fraction"]) == (132, 0.5)


def test_a_run_for_nobody_knows_which_gpu_says_that_nothing_was_built(
    tmp_path: Path, settings: Settings
) -> None:
    spec = RunSpec(task=TASK, target=TargetName.parse("cuda/triton"), recipe=DEFAULT_RECIPE)
    ahead = playing.inspector(spec, settings)(TASK, Candidate(source="class ModelNew: ..."))
    assert ahead == AotCheck(note="not built ahead of time: no GPU is known that this run is for")
    assert playing.profiler(spec, settings) is None


@pytest.mark.parametrize(
    ("environment", "gpu", "is_profiled"),
    [
        ({}, "rtx-4090", True),
        ({"gpu": "NVIDIA GeForce RTX 4090"}, "rtx-4090", True),
        ({"gpu": "h200-sxm"}, "h200-sxm", False),
        ({"gpu": "nobody's"}, None, False),
        ({"gpu_elsewhere": True, "gpu": "h200-sxm"}, "h200-sxm", False),
        ({"gpu_elsewhere": True, "gpu": "rtx-4090"}, "rtx-4090", False),
        ({"gpu_elsewhere": True}, None, False),
    ],
)
def test_a_run_is_for_the_gpu_that_its_record_names(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, FactValue],
    gpu: str | None,
    is_profiled: bool,
) -> None:
    here = GPUS["rtx-4090"].model_copy(update={"memory_gb": 23.0})  # a stub of one that was measured
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: True)
    monkeypatch.setattr(gpu_peaks, "gpu_here", lambda kind, cache: here)
    spec = RunSpec(
        task=TASK,
        target=TargetName.parse("cuda/triton"),
        recipe=DEFAULT_RECIPE,
        environment=environment,
    )
    found = gpu_of(spec, settings.cache_dir)
    assert (found and found.name) == gpu and (found == here) is is_profiled
    assert (playing.profiler(spec, settings) is not None) is is_profiled


def test_what_a_model_wrote_is_not_profiled(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: True)
    spec = RunSpec(
        task=TASK,
        target=TargetName.parse("cuda/triton"),
        recipe=DEFAULT_RECIPE,
        models=ModelSettings(model="openai:any"),
    )
    profile = playing.profiler(spec, settings)
    assert profile is not None
    assert profile(TASK, Candidate(source="")) == Profiled(
        note="not profiled: a model wrote it, and profilers run candidates unconfined (--profile-unconfined)"
    )


def test_what_a_model_wrote_is_profiled_where_the_user_wants_that(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profiler is a stub; a real one needs a GPU."""
    seen: list[str] = []

    def stub(source: str, task_source: str, kind: str, *, mode: str, is_tf32: bool) -> Profiled:
        seen.append(source)
        return Profiled(note=f"stub on {kind}")

    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: True)
    monkeypatch.setattr(take, "take_profile", stub)
    target = TargetName.parse("cuda/triton")
    vars(target_of(target)).pop("profile", None)
    spec = RunSpec(task=TASK, target=target, recipe=DEFAULT_RECIPE, models=ModelSettings(model="openai:any"))
    try:
        profile = playing.profiler(spec, replace(settings, profile_unconfined=True))
        assert profile is not None
        assert profile(TASK, Candidate(source="of a model")).note == "stub on cuda"
    finally:
        vars(target_of(target)).pop("profile", None)
    assert [source.strip() for source in seen] == ["of a model"]


def test_a_strangers_task_is_never_profiled_unconfined(settings: Settings) -> None:
    wanted = bound_settings(settings, profile_unconfined=True)
    assert wanted.profile_unconfined and not bound_settings(settings).profile_unconfined
    with pytest.raises(UserError, match="leave out --confine-tasks"):
        bound_settings(settings, confine_tasks=True, profile_unconfined=True)


@pytest.mark.slow
def test_without_a_stub_the_real_compiler_builds_for_the_gpu_that_is_named(
    store: Store, settings: Settings
) -> None:
    pytest.importorskip("triton")
    outcome = play(store, settings, FakeReferee({}), 2, None)
    built = [e for e in evaluations(store, outcome.run_id) if e.facts.get("aot.registers")]
    assert built, [e.notes for e in evaluations(store, outcome.run_id)]
    assert built[0].facts["gpu.architecture"] == "sm_90" and built[0].facts["gpu.units"] == 132
    assert built[0].notes[0].startswith("built ahead for sm_90, h200-sxm: 1 kernel")
    assert built[0].phases_s["ahead"] > 0


WRONG = """
import torch, triton, triton.language as tl
@triton.jit
def wrong(x):
    tl.store(x, tl.no_such_function())
class ModelNew(torch.nn.Module):
    def forward(self, x):
        wrong[(1,)](x)
        return x
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton's compiler")
def test_what_the_real_compiler_refuses_is_not_paid_for(settings: Settings) -> None:
    referee = FakeReferee({})
    spec = RunSpec(
        task=TASK,
        target=TargetName.parse("cuda/triton"),
        recipe="none",
        environment={"gpu": "sm_90"},
    )
    judge = InspectingEvaluator(referee, playing.inspector(spec, settings))
    with judge.open(TASK) as session:
        found = session.evaluate(Candidate(source=WRONG, target=spec.target))
    assert found.status is Status.COMPILE_ERROR and "no_such_function" in found.detail
    assert referee.asked == [] and found.sandbox is not None
