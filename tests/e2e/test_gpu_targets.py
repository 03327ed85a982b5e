"""Whole runs of models for a GPU's targets without one: model, compilers and referee are stand-ins."""

import json
from pathlib import Path

import pytest
from lab.servers.bad_server import BadServer, answers
from lab.servers.playing_model import TASK, PlayingModel, ScriptedReferee
from tests.marks import first_quick

from kernelwright import api
from kernelwright.agents.llm.prompts import prompting_of
from kernelwright.agents.llm.sources import LOADER_LINE
from kernelwright.agents.problem import Problem
from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.core.events import CandidateEvaluated, StepStarted
from kernelwright.core.machine import Machine
from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec
from kernelwright.core.target import TargetName
from kernelwright.runs.prepare import prepare_on
from kernelwright.settings import Settings
from kernelwright.store.base import Store
from kernelwright.targets.gpu.facts import find_gpu
from kernelwright.targets.gpu.inspect.ahead import AotCheck
from kernelwright.testing.fake_run import PEAKS

TRITON, CUDA = TargetName(device="cuda", language="triton"), TargetName(device="cuda", language="cuda")
PROCESSOR = "Processor 9000"
BUILT = AotCheck(facts={"aot.registers": 32, "aot.occupancy": 0.25, "gpu.waves": 0.5}, note="stand-in")
_PREPARED: dict[TargetName, tuple[Problem, str | None]] = {}


def prepared(spec: RunSpec, cache_dir: Path) -> tuple[Problem, str | None]:
    """Prepare for a GPU that is known by its datasheet, beside a processor with a name of its own."""
    if spec.target not in _PREPARED:
        peaks = PEAKS.model_copy(update={"device": PROCESSOR})
        machine = Machine(processor=PROCESSOR, cores=2, vector_bytes=32, peaks=peaks)
        _PREPARED[spec.target] = prepare_on(spec, machine, find_gpu("h100-sxm"))
    return _PREPARED[spec.target]


def spec_for(
    target: TargetName, recipe: str, url: str, *, team: str = "llm", evaluations: int = 7
) -> RunSpec:
    return RunSpec(
        task=TASK,
        recipe=recipe,
        target=target,
        team=team,
        models=ModelSettings(model="openai:scripted", base_url=url),
        budget=Budget(evaluations=evaluations),
        baselines=("eager",),
        is_cold=True,
    )


@pytest.mark.parametrize(
    ("target", "recipe", "team"),
    first_quick(
        [
            (TRITON, "kernelskill", "llm"),
            (CUDA, "cupilot", "llm"),
            (CUDA, "kernelskill", "llm"),
            (TRITON, "fsr", "llm"),
            (TRITON, "stark", "llm"),
            (TRITON, "kernelskill", "llm+generator=expert"),
        ],
        count=2,
    ),
    ids=str,
)
def test_a_team_of_models_goes_the_whole_way(
    target: TargetName, recipe: str, team: str, store: Store, settings: Settings
) -> None:
    with BadServer(answers(PlayingModel(target.language))) as server:
        outcome = api.play(
            spec_for(target, recipe, server.url, team=team),
            store=store,
            settings=settings,
            referee=ScriptedReferee(),
            prepare=prepared,
            inspect=lambda task, candidate: BUILT,
        )
        sent = [json.dumps(request.body["messages"]) for request in server.requests]
    assert outcome.winner is not None and outcome.winner.target == target
    assert set(outcome.answers) == {"ok"}, outcome.answers
    assert prompting_of(target).own.search(outcome.winner.source)
    assert LOADER_LINE not in outcome.winner.source
    events = [stored.event for stored in store.iter_events(outcome.run_id)]
    assert sum(isinstance(event, CandidateEvaluated) for event in events) >= 5
    assert (
        "repair" in {event.mode for event in events if isinstance(event, StepStarted)}
        or recipe != "kernelskill"
    )
    of_processor = (
        PROCESSOR,
        "OpenMP",
        "cpu/cpp",
        "CPP_SOURCE",
        "machine.n_threads",
        "march=native",
        "vectoris",
    )
    assert [word for word in of_processor if any(word in text for text in sent)] == []
    assert any("H100" in text for text in sent), "the GPU's own rates are told"
    assert any("aot.occupancy = 0.25" in text for text in sent) or recipe != "kernelskill"


def test_who_cannot_write_the_language_is_refused_before_anything_starts(
    store: Store, settings: Settings
) -> None:
    for team in ("expert", "llm+coder=expert"):
        with pytest.raises(UserError, match="the expert does not write for target 'cuda/cuda'"):
            api.play(spec_for(CUDA, "fsr", "http://127.0.0.1:1", team=team), store=store, settings=settings)
    hip = TargetName(device="hip", language="hip")
    with pytest.raises(UserError, match=r"models are asked for kernels for cpu/cpp, .*; not for 'hip/hip'"):
        api.play(spec_for(hip, "fsr", "http://127.0.0.1:1"), store=store, settings=settings)
    assert list(store.iter_runs()) == []
