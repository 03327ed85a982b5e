"""A run that is judged elsewhere is planned for the machine there, the processor included."""

from collections.abc import Callable
from pathlib import Path

from lab.servers.playing_model import ScriptedReferee
from tests.remote.conftest import TOKEN, Service, StubReferee

from kernelwright import api
from kernelwright.core.budget import Budget
from kernelwright.core.machine import Machine
from kernelwright.core.run import RunSpec
from kernelwright.core.target import CPU_CPP
from kernelwright.remote.client import RemoteEvaluator
from kernelwright.remote.dropservice import DropService
from kernelwright.remote.filedrop import FileDropEvaluator, write_machine
from kernelwright.remote.sessions import Sessions
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.machine import machine_of_run
from kernelwright.settings import Settings
from kernelwright.store.sqlstore import open_store
from kernelwright.tasks.suite import suite_tasks
from kernelwright.testing.fake_run import PEAKS

SUM = next(task for task in suite_tasks() if task.name == "17_FrobeniusScale")
THERE = Machine(processor="Another CPU", cores=1, vector_bytes=64, peaks=PEAKS)
N_SEEDS = 3


def play(evaluator: Evaluator, machine: Machine, folder: Path) -> tuple[Machine, set[str]]:
    """Play a run for a machine; return the one in its record and its seeds."""
    settings = Settings(store="sqlite://", cache_dir=folder, data_dir=folder)
    store = open_store(settings.store)
    spec = RunSpec(
        task=SUM,
        recipe="kernelskill",
        budget=Budget(evaluations=N_SEEDS),
        baselines=("eager",),
        machine=machine,
        is_cold=True,
    )
    run_id = api.play(spec, store=store, settings=settings, referee=evaluator).run_id
    seeds = {c.id for c in store.iter_candidates(run_id) if c.role == "generator"}
    return store.get_run(run_id).spec.machine, seeds


def seeds_here(machine: Machine, folder: Path) -> set[str]:
    """The seeds for a machine, judged by a scripted referee."""
    return play(ScriptedReferee(lambda source: 1.5), machine, folder)[1]


def test_over_http(start_service: Callable[..., Service], tmp_path: Path) -> None:
    service = start_service(machine=THERE)
    evaluator = RemoteEvaluator(service.url, TOKEN)
    machine, seeds = play(evaluator, machine_of_run(CPU_CPP, tmp_path, evaluator), tmp_path)
    assert machine == THERE.model_copy(update={"is_elsewhere": True})
    assert seeds == seeds_here(THERE, tmp_path)
    assert seeds != seeds_here(THERE.model_copy(update={"cores": 2}), tmp_path)


def test_through_a_folder(tmp_path: Path, stub: StubReferee) -> None:
    folder = tmp_path / "drop"
    service = DropService(folder, Sessions(lambda: stub))
    evaluator = FileDropEvaluator(folder, 60.0, 0.1, sleep=lambda seconds: drop(service.answer_waiting()))
    write_machine(folder, THERE)
    machine, seeds = play(evaluator, machine_of_run(CPU_CPP, tmp_path, evaluator), tmp_path)
    assert machine.cores == 1 and machine.is_elsewhere and not machine.is_assumed
    assert seeds == seeds_here(THERE, tmp_path)


def drop(_: object) -> None:
    """Let a value go."""
