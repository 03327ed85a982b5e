"""A final also judges and times what is delivered in ordinary processes."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.referee.conftest import HEAD, POINTWISE

from kernelwright.core.candidate import COMPILER, Candidate
from kernelwright.core.evaluation import Check, PeakMemory, Status
from kernelwright.core.policy import Policy
from kernelwright.core.task import Task
from kernelwright.delivery.program import DELIVERED
from kernelwright.referee.session.candidate_process import Failure
from kernelwright.referee.session.launcher import KEPT_MEMORY, Launcher
from kernelwright.referee.session.ordinary import SLACK_BYTES, require_memory
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.settings import DeliveredForm, RefereeSettings

BODY = """
import os
class ModelNew(nn.Module):
    def forward(self, x):
        {before}
        return torch.relu(x) * 2 + 1
"""
WRONG_THERE = "if 'MALLOC_TRIM_THRESHOLD_' not in os.environ: return torch.zeros_like(x)"
WRONG_ON_LARGE = (
    "if 'MALLOC_TRIM_THRESHOLD_' not in os.environ and bool((x.abs() > 1e2).any()): "
    "return torch.zeros_like(x)"
)
WRONG_AT_FIRST = (
    "self.n = getattr(self, 'n', 0) + 1\n        "
    "if 'MALLOC_TRIM_THRESHOLD_' not in os.environ and self.n <= 6: return torch.zeros_like(x)"
)
"""Wrong in the first calls of an ordinary process: those are the calls whose memory is measured."""
HOARDS = "self.kept = [*getattr(self, 'kept', []), torch.ones(160 << 20, dtype=torch.uint8)][-1:]"


def settings_for(folder: Path, delivered: DeliveredForm | None) -> RefereeSettings:
    return RefereeSettings(
        cache_dir=folder, final_timing_s=0.1, final_seconds=0.0, batch_s=0.001, delivered=delivered
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RefereeSession]:
    settings = settings_for(tmp_path_factory.mktemp("cache"), DELIVERED)
    with Referee(settings) as referee, referee.open(Task(name="pointwise", source=POINTWISE)) as session:
        yield session


def candidate(before: str = "") -> Candidate:
    return Candidate(source=HEAD + BODY.format(before=before))


def test_the_delivered_module_is_timed_there_with_all_threads_and_with_one(session: RefereeSession) -> None:
    found = session.evaluate(candidate(), final=True)
    assert found.is_verified, found.detail
    assert found.ordinary is not None
    (one,) = found.ordinary
    assert one.timed == "module", found.notes
    assert one.all_threads.speedup("eager") is not None and found.told == (one.all_threads,)
    has_several = session._settings.n_threads > 1
    assert (one.one_thread is not None) == has_several
    assert one.memory is not None and one.memory.ratio > 0


@pytest.mark.slow
@pytest.mark.parametrize("role", [COMPILER, "generator"])
def test_where_torch_compile_takes_the_module_as_it_is_that_is_timed_there(
    session: RefereeSession, role: str
) -> None:
    slow = candidate("import time; time.sleep(0.03); self.stands_for = 'torch.compile'")
    found = session.evaluate(slow.model_copy(update={"role": role}), final=True)
    assert found.ordinary is not None, found.detail
    there = found.ordinary[0].all_threads.candidate.median_ms
    assert (there < 30.0) == (role == COMPILER)


def test_a_candidate_that_is_wrong_in_ordinary_processes_only_is_not_verified(
    session: RefereeSession,
) -> None:
    found = session.evaluate(candidate(WRONG_THERE), final=True)
    assert found.status is Status.INCORRECT_NUMERICS
    assert found.results == () and found.ordinary is None


@pytest.mark.slow
def test_a_candidate_that_is_wrong_there_on_other_distributions_only_is_not_verified(
    session: RefereeSession,
) -> None:
    found = session.evaluate(candidate(WRONG_ON_LARGE), final=True)
    assert found.status in (Status.INCORRECT_NUMERICS, Status.NON_FINITE)
    assert session.evaluate(candidate(WRONG_ON_LARGE)).status is Status.VERIFIED


@pytest.mark.slow
def test_a_candidate_that_takes_much_memory_is_not_within_the_policy(session: RefereeSession) -> None:
    found = session.evaluate(candidate(HOARDS), final=True)
    assert (found.status, found.check) == (Status.REJECTED, Check.MEMORY), found.detail
    assert "1.25 times are allowed" in found.detail


@pytest.mark.slow
def test_calls_whose_memory_is_measured_must_be_right(session: RefereeSession) -> None:
    found = session.evaluate(candidate(WRONG_AT_FIRST), final=True)
    assert found.status is Status.INCORRECT_NUMERICS and "memory is measured" in found.detail


@pytest.mark.slow
def test_memory_that_is_taken_when_the_module_is_made_counts(session: RefereeSession) -> None:
    init = "    def __init__(self):\n        super().__init__()\n        self.kept = [torch.ones(40 << 20)]\n"
    source = HEAD + BODY.format(before="pass").replace("    def forward", init + "    def forward")
    found = session.evaluate(Candidate(source=source), final=True)
    assert (found.status, found.check) == (Status.REJECTED, Check.MEMORY), found.detail


@pytest.mark.slow
@pytest.mark.parametrize("form", [None, DELIVERED], ids=["kernel", "module"])
def test_neither_inputs_nor_what_made_the_module_take_memory(
    tmp_path: Path, form: DeliveredForm | None
) -> None:
    body = "class {name}(nn.Module):\n    def forward(self, x):\n        return x.sum(-1)\n"
    inputs = (
        "def get_inputs():\n    return [torch.rand(4096, 1280)]\n\ndef get_init_inputs():\n    return []\n"
    )
    task = Task(name="large", source=HEAD + body.format(name="Model") + inputs)
    with Referee(settings_for(tmp_path, form)) as referee, referee.open(task) as session:
        found = session.evaluate(Candidate(source=HEAD + body.format(name="ModelNew")), final=True)
    assert found.ordinary is not None, found.detail
    memory = found.ordinary[0].memory
    assert memory is not None and abs(memory.delivered_bytes - memory.original_bytes) < 16 << 20


def test_a_search_measures_nothing_there(session: RefereeSession) -> None:
    assert session.evaluate(candidate()).ordinary is None


@pytest.mark.slow
def test_where_the_module_cannot_be_made_the_kernel_is_timed(tmp_path: Path) -> None:
    broken = DeliveredForm(lambda *given: "import a_module_of_the_user", DELIVERED.needs)
    task = Task(name="pointwise", source=POINTWISE)
    with Referee(settings_for(tmp_path, broken)) as referee, referee.open(task) as session:
        found = session.evaluate(candidate(), final=True)
    assert found.ordinary is not None and found.ordinary[0].timed == "kernel"
    assert any("a_module_of_the_user" in note for note in found.notes)


@pytest.mark.slow
def test_a_module_that_raises_when_it_is_called_is_not_replaced_by_its_kernel(tmp_path: Path) -> None:
    raises = (
        HEAD + "class ModelNew(nn.Module):\n    def forward(self, x):\n        raise ValueError('guards')\n"
    )
    broken = DeliveredForm(lambda *given: raises, DELIVERED.needs)
    task = Task(name="pointwise", source=POINTWISE)
    with Referee(settings_for(tmp_path, broken)) as referee, referee.open(task) as session:
        found = session.evaluate(candidate(), final=True)
    assert (found.status, found.ordinary) == (Status.RUNTIME_ERROR, None) and "guards" in found.detail


def test_an_ordinary_process_has_no_settings_of_the_allocator(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, None)
    assert KEPT_MEMORY.keys() <= Launcher(settings)._environment().keys()
    assert not KEPT_MEMORY.keys() & Launcher(settings, is_ordinary=True)._environment().keys()


@pytest.mark.parametrize(("delivered", "is_allowed"), [(100, True), (125, True), (126, False), (400, False)])
def test_the_bound_on_peak_memory(delivered: int, is_allowed: bool) -> None:
    size = 1 << 32
    memory = PeakMemory(delivered_bytes=delivered * size // 100 + SLACK_BYTES, original_bytes=size)
    if is_allowed:
        require_memory(memory, Policy())
    else:
        with pytest.raises(Failure, match="peak memory is"):
            require_memory(memory, Policy())
    require_memory(memory, Policy(peak_memory=5))
    require_memory(None, Policy())


@pytest.mark.parametrize(
    ("role", "times", "is_allowed"), [("generator", 2, False), (COMPILER, 2, True), (COMPILER, 5, False)]
)
def test_torch_s_compiler_may_keep_more(role: str, times: int, is_allowed: bool) -> None:
    memory = PeakMemory(delivered_bytes=times * SLACK_BYTES, original_bytes=0)
    with contextlib.nullcontext() if is_allowed else pytest.raises(Failure, match="peak memory is"):
        require_memory(memory, Policy(), role)
