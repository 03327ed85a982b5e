"""Over the wire: what a model leaves open is judged closed, and the next prompt tells what was learned."""

from collections.abc import Callable

import pytest
from lab.servers.bad_server import BadServer, Request, answers
from lab.servers.playing_model import TASK, block, kernel

from kernelwright.core.budget import Budget
from kernelwright.core.events import ParametersClosed
from kernelwright.core.models import ModelSettings
from kernelwright.core.open_parameters import open_parameters
from kernelwright.core.run import RunSpec
from kernelwright.runs.loop import RunOutcome
from kernelwright.store.base import Store
from kernelwright.testing.fake_run import FakeReferee

Play = Callable[[RunSpec, FakeReferee], RunOutcome]
OPEN = (
    kernel(7)
    .replace("static const int CHUNK = 7;", "")
    .replace("CPP_SOURCE =", 'TUNE = {"CHUNK": [1, 64, "none"], "SPIN": [1, 0]}\n\nCPP_SOURCE =', 1)
    .replace('"-O3",', """"-O3", f"-DCHUNK={TUNE['CHUNK'][0]}",""", 1)
)
UNREADABLE = OPEN.replace('"SPIN": [1, 0]', '"SPIN": 1')


@pytest.mark.slow
def test_the_closed_kernel_is_judged_and_the_surface_is_told(play: Play, store: Store) -> None:
    given = iter([UNREADABLE, OPEN, kernel(5), kernel(6)])

    def model(request: Request) -> str:
        return f"Approach: rows.\nChange: a constant.\n{block(next(given))}"

    referee = FakeReferee({})
    with BadServer(answers(model)) as server:
        models = ModelSettings(model="openai:scripted", base_url=server.url)
        spec = RunSpec(task=TASK, recipe="refine", team="llm", models=models, budget=Budget(evaluations=2))
        outcome = play(spec, referee)
        asked = [str(request.body["messages"]) for request in server.requests]
    assert "leaves open" not in asked[0] and "Values left open" in asked[0]
    assert "must be a list of values" in asked[1], "an unreadable TUNE is asked for again"
    assert "What tuning found" in asked[2] and "chosen: CHUNK=" in asked[2]
    closed = referee.asked[0][0]
    assert all(len(values) == 1 for values in open_parameters(closed).values())
    assert open_parameters(closed)["CHUNK"] != ("none",), "a point that does not build is only a point"
    stored = [one.event for one in store.iter_events(outcome.run_id)]
    (event,) = [one for one in stored if isinstance(one, ParametersClosed)]
    assert not event.closing.problem and event.closing.n_failed == 2 and event.closing.seconds > 0
