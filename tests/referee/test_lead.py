"""Who leads a search is replayed; who is no faster is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Status
from kernelwright.core.task import Task
from kernelwright.referee.session.lead import Lead
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.timing.statistics import Samples, conclude

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x * 2 + 1)

def get_inputs():
    return [torch.rand(64, 64)]

def get_init_inputs():
    return []
"""


def times(ratio: float) -> Samples:
    return Samples(
        candidate=(1.0 / ratio,) * 3, baselines={"eager": (1.0,) * 3}, calls={"candidate": 1, "eager": 1}
    )


def test_at_first_the_module_as_it_is_leads() -> None:
    assert Lead().is_behind("default", times(0.9))
    assert not Lead().is_behind("default", times(1.1))


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=6))
def test_whoever_is_faster_than_all_before_is_never_behind(ratios: list[float]) -> None:
    lead = Lead()
    for ratio in ratios:
        lead.offer([conclude("default", [times(ratio)])])
    assert lead.is_behind("default", times(0.99 * max(1.0, *ratios)))
    assert not lead.is_behind("default", times(1.01 * max(1.0, *ratios)))


def test_it_leads_over_all_workloads_and_is_asked_about_each() -> None:
    lead = Lead()
    lead.offer([conclude("small", [times(4.0)]), conclude("large", [times(0.5)])])
    lead.offer([conclude("small", [times(1.2)]), conclude("large", [times(1.1)])])
    assert lead.is_behind("small", times(3.0))
    assert not lead.is_behind("large", times(1.0))


def test_nobody_is_behind_where_eager_was_not_timed() -> None:
    assert not Lead().is_behind("default", Samples(candidate=(1.0,), baselines={}, calls={"candidate": 1}))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> RefereeSettings:
    return RefereeSettings(cache_dir=tmp_path_factory.mktemp("cache"), search_timing_s=0.05)


@pytest.mark.parametrize("is_search", [True, False])
def test_a_search_replays_nobody_who_is_slower_than_eager(settings: RefereeSettings, is_search: bool) -> None:
    own = TASK.replace("class Model(", "class ModelNew(").replace(
        "import torch\n", "import time\nimport torch\n", 1
    )
    slow = own.replace("        return torch.relu", "        time.sleep(0.01)\n        return torch.relu")
    searching = RefereeSettings(**(vars(settings) | {"replays_leaders_only": is_search}))
    with Referee(searching) as referee, referee.open(Task(name="relu", source=TASK)) as session:
        found = session.evaluate(Candidate(source=slow))
    assert found.status is Status.VERIFIED
    assert found.not_replayed == (("default",) if is_search else ())
