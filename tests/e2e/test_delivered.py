"""The delivered file keeps its words; what runs of it is what was verified."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.servers.playing_model import ScriptedReferee

from kernelwright.core.source import normalise
from kernelwright.store.base import Store


def test_the_program_of_the_delivered_file_is_the_one_that_was_verified(
    optimize: Callable[..., Any], referee: ScriptedReferee, store: Store
) -> None:
    assert optimize("--budget-evaluations", "3").code == 0
    delivered = Path("relu_sum_fast.py").read_text(encoding="utf-8")
    (run,) = store.iter_runs()
    candidates = {c.source: c for c in store.iter_candidates(run.run_id)}
    assert '"""relu_sum: a drop-in' in delivered and referee.asked[-1] == (delivered, True)
    assert normalise(delivered) == candidates[delivered].program != delivered
