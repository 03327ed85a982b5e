"""A run of any recipe with scripted verdicts and a scripted team, killed at will."""

from collections.abc import Callable
from pathlib import Path

from kernelwright.agents.roles import Team
from kernelwright.core.events import CandidateEvaluated, Event
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.runs.loop import Crew, RunOutcome, Tools, continue_run, start_run
from kernelwright.runs.recipe import Recipe
from kernelwright.runs.view import SearchPolicy
from kernelwright.store.base import Store
from kernelwright.testing.fake_run import FakeReferee, fake_prepare


class Killed(BaseException):
    """Stands for kill -9: nothing may catch it."""


def spec_of(recipe: Recipe, **more: object) -> RunSpec:
    """Return the spec of a run of a made-up task, with the recipe's own budget."""
    task = Task(name="t", source="reference")
    return RunSpec.model_validate({"task": task, "recipe": recipe.name, "budget": recipe.budget} | more)


def tools_of(
    recipe: Recipe,
    policy: SearchPolicy,
    store: Store,
    referee: FakeReferee,
    team: Team,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Tools:
    """Return what plays the recipe without a machine."""
    return Tools(
        store=store,
        referee=referee,
        assemble=lambda meter, tape: Crew(team),
        policy=policy,
        pipelines=recipe.pipelines,
        cache_dir=Path("unused"),
        prepare=fake_prepare,
        on_event=on_event,
    )


def play_killed_after(
    n_evaluations: int, spec: RunSpec, tools_with: Callable[[Callable[[Event], None]], Tools]
) -> RunOutcome:
    """Kill a run right after its nth evaluation, then carry it on to its end."""
    seen: list[str] = []

    def kill(event: Event) -> None:
        if isinstance(event, CandidateEvaluated):
            seen.append(event.candidate)
            if len(seen) == n_evaluations:
                raise Killed

    first = tools_with(kill)
    try:
        start_run(spec, first)
    except Killed:
        pass
    else:
        raise AssertionError(f"the run made fewer than {n_evaluations} evaluations")
    run_id = next(first.store.iter_runs()).run_id
    return continue_run(run_id, tools_with(lambda event: None))


def events(store: Store, run_id: str) -> list[Event]:
    """Return the events of a run in order."""
    return [stored.event for stored in store.iter_events(run_id)]


def evaluated(store: Store, run_id: str) -> list[str]:
    """Return the sources that were judged, in order, final measurements included."""
    found = (e for e in events(store, run_id) if isinstance(e, CandidateEvaluated))
    return [store.get_candidate(event.candidate).source for event in found]
