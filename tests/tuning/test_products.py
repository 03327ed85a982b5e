"""The tuner and the expert can choose a generated product where the library is the default."""

from collections.abc import Callable, Mapping, Sequence

from tests.targets.cpp.test_products import LOWERING, NARROW, linear_space, task_of

from kernelwright.core.plan import Plan
from kernelwright.core.task import Workload
from kernelwright.ir.plan_lowering import lower_plan, sites, write_source
from kernelwright.ir.space import PlannedPoint, Point
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.tasks.capture import capture_task
from kernelwright.tuning.search import FirstCall, tune_points
from kernelwright.tuning.sources import SpaceSource

TASK = task_of("nn.Linear(200, 300)", "F.gelu(self.layer(x0))", (70, 200))


class StubTimer:
    """Stub: kernels with a tile of their own take half the time of others."""

    def __init__(self) -> None:
        self.cost: dict[int, float] = {}
        self.now = 0.0

    def load(
        self,
        sources: Mapping[int, str],
        limit_s: float,
        keep: Sequence[int],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> dict[int, FirstCall]:
        for number, source in sources.items():
            self.cost[number] = 0.5 if "_tile<" in source else 1.0
        self.now += len(sources)
        return {number: FirstCall(ratio=self.cost[number]) for number in sources}

    def time(self, points: Sequence[int], rounds: int, limit_s: float) -> dict[int, list[float]]:
        self.now += 1
        return {point: [self.cost[point]] * rounds for point in points}


def test_the_tuner_takes_own_code_where_it_is_faster() -> None:
    def write(planned: PlannedPoint) -> str:
        assert planned.lowered is not None
        return write_source(TASK, {"default": planned.lowered}, planned.plan, render_cpp_candidate)

    timer = StubTimer()
    run = tune_points(SpaceSource(linear_space(), write), timer, seconds=60, clock=lambda: timer.now)
    assert run.ranked[0].values["own.addmm"] == "generated"
    assert run.ranked[0].ratio is not None and run.ranked[0].ratio <= 0.6


def test_the_expert_finds_a_site_on_the_library_and_knobs_once_it_is_taken() -> None:
    captured = capture_task(TASK, Workload())
    before = lower_plan(captured, Plan(), {}, LOWERING, NARROW)
    (site,) = sites(before, "fusion:own-product")
    assert site.region == "addmm" and "70x200" in site.why
    after = linear_space().plan(Point.of({"own.addmm": "generated"})).lowered
    assert after is not None and sites(after, "fusion:own-product") == ()
    for edit in ("product-form", "register-tile", "cache-block", "packing"):
        assert sites(after, f"schedule:{edit}"), edit
        assert sites(before, f"schedule:{edit}") == ()
