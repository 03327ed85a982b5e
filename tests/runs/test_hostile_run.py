"""A run whose team writes hostile programs, with the real referee: it ends, and its data are whole."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kernelwright.core.events import CandidateEvaluated
from kernelwright.core.run import RunSpec, RunState
from kernelwright.corpus.load import load_corpus_task, load_specimens
from kernelwright.methods.kernelskill import KERNELSKILL, KernelSkillPolicy
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings
from kernelwright.runs.loop import Crew, Tools, continue_run, start_run
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import ScriptedTeam, fake_prepare

WRITTEN = ("48_kills_parent", "48_disk_filler", "32_socket_garbage")


@pytest.mark.slow
def test_hostile_candidates_are_verdicts_and_the_runs_data_are_whole(tmp_path: Path) -> None:
    specimens = {specimen.name: specimen for specimen in load_specimens()}
    team = ScriptedTeam([specimens[name].source for name in WRITTEN], [])
    file = tmp_path / "runs.db"
    store = open_store(file)
    spec = RunSpec(task=load_corpus_task("pointwise"), recipe="kernelskill")
    settings = RefereeSettings(
        cache_dir=tmp_path / "cache", search_timing_s=0.05, final_seconds=5.0, call_timeout_s=5.0
    )
    with Referee(settings) as referee:
        tools = Tools(
            store=store,
            referee=referee,
            assemble=lambda meter, tape: Crew(team.team()),
            policy=KernelSkillPolicy(rounds=1),
            pipelines=KERNELSKILL.pipelines,
            cache_dir=tmp_path / "cache",
            prepare=fake_prepare,
        )
        outcome = start_run(spec, tools)
        kept = [stored.event for stored in store.iter_events(outcome.run_id)]
        assert continue_run(outcome.run_id, tools) == outcome
    judged = {e.candidate: e.evaluation for e in kept if isinstance(e, CandidateEvaluated)}
    sources = {store.get_candidate(candidate).source for candidate in judged}
    assert {specimens[name].source for name in WRITTEN} <= sources
    for candidate, evaluation in judged.items():
        name = next(n for n in WRITTEN if specimens[n].source == store.get_candidate(candidate).source)
        specimen = specimens[name]
        assert specimen.is_as_expected(evaluation.status, evaluation.check, evaluation.detail), evaluation
    assert store.get_run(outcome.run_id).state is RunState.FINISHED
    assert [stored.event for stored in store.iter_events(outcome.run_id)] == kept
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
