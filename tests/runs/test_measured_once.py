"""Every recipe, with the expert and with a model in every seat: no program is evaluated twice in a run."""

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest
from lab.servers.bad_server import BadServer, answers
from lab.servers.playing_model import TASK, PlayingModel
from tests.marks import first_quick

from kernelwright import api
from kernelwright.agents.problem import Problem
from kernelwright.api import playing
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.events import CandidateEvaluated, MoveFailed
from kernelwright.core.machine import Machine
from kernelwright.core.models import ModelSettings
from kernelwright.core.roofline import Floor
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.methods import recipes
from kernelwright.runs.prepare import prepare_on
from kernelwright.settings import load_settings
from kernelwright.store.sqlstore import open_store
from kernelwright.tasks.kernelbench import load_task
from kernelwright.testing.fake_run import PEAKS, FakeReferee, fake_evaluation

SUITE = ("27_Softmax", "17_FrobeniusScale", "46_LinearMishResidual")
EVALUATIONS = 9
_PREPARED: dict[str, tuple[Problem, str | None]] = {}


class CountingReferee(FakeReferee):
    """Stub: draws verdicts by the program, a sixth of them failures, and keeps what it was given to run."""

    def __init__(self) -> None:
        super().__init__({})
        self.programs: list[tuple[str, bool]] = []

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        assert self.task is not None
        self.programs.append((candidate.program, final))
        lot = sha256(candidate.program.encode()).digest()
        fails = lot[0] < 43 and "_kernel(" in candidate.program
        verdict = Status.INCORRECT_NUMERICS if fails else 1.0 + lot[1] / 128
        return fake_evaluation(candidate, self.task, verdict, final=final)


def prepared(spec: RunSpec, cache_dir: Path) -> tuple[Problem, str | None]:
    """Prepare on made-up peaks, once a task: capture is most of what a run here costs."""
    if spec.task.id not in _PREPARED:
        _PREPARED[spec.task.id] = prepare_on(spec, Machine(cores=2, vector_bytes=32, peaks=PEAKS))
    return _PREPARED[spec.task.id]


def suite_task(name: str) -> Task:
    return load_task(Path(str(files("kernelwright.tasks") / "suite" / f"{name}.py")))


def play(spec: RunSpec, folder: Path) -> tuple[CountingReferee, list[object]]:
    store, referee = open_store(folder / "runs.db"), CountingReferee()
    outcome = api.play(spec, store=store, settings=load_settings(), referee=referee, prepare=prepared)
    return referee, [stored.event for stored in store.iter_events(outcome.run_id)]


def require_once(referee: CountingReferee, events: list[object]) -> None:
    assert max(Counter(referee.programs).values()) == 1
    judged = [e.candidate for e in events if isinstance(e, CandidateEvaluated) and not e.evaluation.is_final]
    assert len(judged) == len(set(judged)) == sum(not is_final for _, is_final in referee.programs)


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of the test's own. Stub: no wrong elements are looked for, as verdicts are drawn."""
    for name in ("CACHE", "DATA"):
        monkeypatch.setenv(f"KERNELWRIGHT_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("KERNELWRIGHT_API_KEY", "sk-none")
    monkeypatch.setattr(playing, "explain", lambda task, candidate, found, *, device: ())


@pytest.mark.parametrize("task", first_quick(SUITE))
@pytest.mark.parametrize("recipe", recipes())
def test_the_expert_team_has_no_program_evaluated_twice(recipe: str, task: str, tmp_path: Path) -> None:
    spec = RunSpec(
        task=suite_task(task),
        recipe=recipe,
        budget=Budget(evaluations=EVALUATIONS),
        baselines=("eager",),
        seed=len(recipe),
    )
    require_once(*play(spec, tmp_path))


@pytest.mark.parametrize("recipe", recipes())
def test_a_model_team_has_no_program_evaluated_twice(recipe: str, tmp_path: Path) -> None:
    with BadServer(answers(_Forgetful())) as server:
        spec = RunSpec(
            task=TASK,
            recipe=recipe,
            team="llm",
            models=ModelSettings(model="openai:scripted", base_url=server.url),
            budget=Budget(evaluations=8),
            baselines=("eager",),
        )
        referee, events = play(spec, tmp_path)
    require_once(referee, events)


def test_a_move_that_leads_back_is_a_failed_move(tmp_path: Path) -> None:
    spec = RunSpec(
        task=suite_task("17_FrobeniusScale"),
        recipe="stark",
        budget=Budget(evaluations=20),
        baselines=("eager",),
    )
    referee, events = play(spec, tmp_path)
    require_once(referee, events)
    assert [e for e in events if isinstance(e, MoveFailed) and "which was evaluated already" in e.reason]


class _Forgetful(PlayingModel):
    """Every other kernel is the one before with another comment on top."""

    def _new_kernel(self, *, may_break: bool = False) -> str:
        text = super()._new_kernel(may_break=may_break)
        if self._n_kernels % 2 == 0:
            self._n_kernels -= 1
            text = super()._new_kernel()
            self._n_kernels += 1
        return text.replace("```python\n", f"```python\n# attempt {self._n_kernels}\n", 1)
