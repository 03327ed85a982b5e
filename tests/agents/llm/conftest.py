"""One made-up situation that every prompt is rendered for. No figure here was measured."""

from dataclasses import dataclass, replace

import pytest

from kernelwright.agents.llm.answers import find_blocks
from kernelwright.agents.llm.prompts import prompting_of
from kernelwright.agents.llm.sources import unfold
from kernelwright.agents.llm.tools import OfferedTools, Tool
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis, Node, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation, Stage, Status
from kernelwright.core.evidence import Bottleneck, Diagnosis, Evidence, Headroom, Reason
from kernelwright.core.learned import ArchivedPlan, Finding
from kernelwright.core.machine import Machine
from kernelwright.core.plan import Move, Plan
from kernelwright.core.roofline import Floor, Work
from kernelwright.core.run import Outcome
from kernelwright.core.skill import RankedSkill, Skill
from kernelwright.core.target import CPU_CPP, TargetName
from kernelwright.core.task import Task, TolerancePolicy
from kernelwright.memory.ledger import Ledger
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.skills.load import load_skills
from kernelwright.targets.gpu.facts import find_gpu
from kernelwright.targets.gpu.machine import accelerator_of
from kernelwright.targets.gpu.roofline import gpu_peaks
from kernelwright.tasks.capture import Captured, capture_task
from kernelwright.testing.fake_run import PEAKS, fake_evaluation

_EXAMPLE = find_blocks(prompting_of(CPU_CPP).file("example.md").read_text(encoding="utf-8"))
REFERENCE, KERNEL = _EXAMPLE[0].text, unfold(_EXAMPLE[1].text)
"""The worked example of the prompts."""
TASK = Task(name="relu_sum", source=REFERENCE)
GPU_SKILLS = ("rows-per-block", "aligned-tail")
SEED = Move(skill="fuse", text="1. one pass over `x`")
BASE = Candidate(source=KERNEL, plan=Plan(moves=(SEED,)), role="generator", call="1")
FAILED = Move(skill="streaming-stores", text="1. store `out` around the caches", why="out is large")
BROKEN = Candidate(
    source=KERNEL.replace("sum += v", "sum -= v"),
    parents=(BASE.id,),
    plan=BASE.plan.then(FAILED),
    role="coder",
    call="2",
)
SIBLING = Candidate(
    source=KERNEL.replace("static const", "constexpr"), parents=(BASE.id,), role="coder", call="3"
)


@pytest.fixture(scope="session")
def captured() -> Captured:
    return capture_task(TASK, TASK.workloads[0])


@pytest.fixture(scope="session")
def skills() -> dict[str, Skill]:
    return load_skills()


@pytest.fixture
def situation(captured: Captured) -> Situation:
    floor = Floor(ms=0.21, bound_by="memory", work=Work(flops=1_572_864, min_bytes=2_103_296))
    problem = Problem(TASK, CPU_CPP, {"default": captured}, {"default": floor}, PEAKS, Machine())
    return Situation(
        problem=problem,
        base=Node(BASE, fake_evaluation(BASE, TASK, 2.5), "base"),
        analysis=_analysis(),
        eager_ms={"default": 10.0},
        window=(Node(SIBLING, fake_evaluation(SIBLING, TASK, 1.6), "sibling"),),
        memory=_memory(),
        ledger=_ledger(),
        findings=(
            Finding(text="Rows under 4 KB want two rows a thread.", target="cpu/cpp", state="admitted"),
            Finding(text="Not proven yet.", target="cpu/cpp"),
        ),
        archive=(_archived(),),
    )


@pytest.fixture
def broken(situation: Situation) -> Situation:
    """The same with the base of a failed idea to repair."""
    return replace(situation, base=Node(BROKEN, failing_evaluation(), "base"))


def failing_evaluation() -> Evaluation:
    return Evaluation(
        candidate_id=BROKEN.id,
        task_id=TASK.id,
        stage=Stage.VERIFY,
        status=Status.INCORRECT_NUMERICS,
        detail="out0 on as_is: error 2.1, allowed 3.4e-06",
        log="compiled\nfirst differing element: out0[3] is -400.2, expected 400.2",
    )


def _analysis() -> Analysis:
    facts = {
        "run.latency_ms": 4.0,
        "run.floor_fraction": 0.0525,
        "machine.n_threads": 2,
        "counters.ipc": None,
    }
    return Analysis(
        evidence=Evidence(facts=facts),
        diagnosis=Diagnosis(
            bottleneck=Bottleneck.COMPUTE,
            also=(Bottleneck.MEMORY_BANDWIDTH,),
            headroom=Headroom.HIGH,
            structure="reduction",
            reasons=(Reason(metric="run.floor_fraction", value=0.0525, text="far from the floor"),),
        ),
        ranked=(
            RankedSkill(skill="unroll-accumulators", score=0.31, reasons=("answers the bottleneck compute",)),
            RankedSkill(skill="streaming-stores", score=0.12, reasons=("answers memory_bandwidth",)),
        ),
    )


def _memory() -> ShortTermMemory:
    memory = ShortTermMemory()
    memory.record_seed(fake_evaluation(BASE, TASK, 2.5))
    memory.record(BASE.id, FAILED, failing_evaluation())
    return memory


def _ledger() -> Ledger:
    outcome = Outcome(
        skill="unroll-accumulators",
        target="cpu/cpp",
        structure="reduction",
        bottleneck="compute",
        task_id="t",
        run_id="r",
        move_key="k",
        verified=True,
        log_speedup=0.2231435513,
    )
    return Ledger([outcome, outcome, outcome, outcome.model_copy(update={"log_speedup": -0.0512932944})])


def _archived() -> ArchivedPlan:
    move = Move(skill="rows-together", region="r_sum", why="short rows")
    return ArchivedPlan(
        task_id="other",
        task_name="row_sum",
        target="cpu/cpp",
        plan=Plan(moves=(move,)),
        initial_source="i",
        best_source="b",
        speedup=3.4,
        run_id="r1",
    )


def on_gpu(
    situation: Situation, target: TargetName, tolerance: TolerancePolicy = TolerancePolicy.STRICT
) -> Situation:
    """Return the same on a GPU: its rates and facts, and kernels in its language."""
    problem = situation.problem
    gpu = find_gpu("mi300x" if target.device == "hip" else "h100-sxm")
    task = problem.task.model_copy(update={"tolerance": tolerance})
    peaks = gpu_peaks(gpu, is_strict=tolerance is TolerancePolicy.STRICT)
    machine = Machine(accelerator=accelerator_of(target.device, gpu, peaks))
    facts = {**machine.facts(), "run.latency_ms": 4.0, "aot.occupancy": 0.25}
    analysis = _analysis()
    ranked = tuple(
        r.model_copy(update={"skill": name}) for r, name in zip(analysis.ranked, GPU_SKILLS, strict=True)
    )
    file = prompting_of(target).file("example.md")
    kernel = unfold(find_blocks(file.read_text(encoding="utf-8"))[1].text)
    base = Candidate(source=kernel, target=target, plan=Plan(moves=(SEED,)), role="generator", call="1")
    return replace(
        situation,
        problem=replace(problem, task=task, target=target, peaks=peaks, machine=machine),
        base=Node(base, fake_evaluation(base, task, 2.5), "base"),
        analysis=replace(analysis, evidence=Evidence(facts=facts), ranked=ranked),
        window=(),
        findings=(),
        archive=(),
        memory=ShortTermMemory(),
    )


@dataclass(frozen=True)
class Weighed:
    """A stub's arguments."""

    stone: str
    times: int = 1


class Scale:
    """A stub of a tool, which counts how often it is carried out."""

    def __init__(self) -> None:
        self.carried: list[Weighed] = []

    def weigh(self, situation: Situation, asked: Weighed) -> str:
        self.carried.append(asked)
        if asked.stone == "none":
            raise UserError("there is no such stone")
        if asked.stone == "endless":
            return "heavy " * 20_000
        return f"{asked.stone} weighs {17 * asked.times} g (weighing {len(self.carried)})"


@pytest.fixture
def scale() -> Scale:
    return Scale()


@pytest.fixture
def offered(situation: Situation, scale: Scale) -> OfferedTools:
    tool = Tool("weigh", "Weigh a stone.", Weighed, scale.weigh)
    return OfferedTools((tool,), situation, most_calls=2)
