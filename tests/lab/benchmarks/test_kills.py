"""The kill experiment: which kills are made and what is written down. The kills: test_killed_runs.py."""

from pathlib import Path
from types import ModuleType

import pytest
from tests.lab.benchmarks.conftest import WHERE, load_benchmark


@pytest.fixture(scope="module")
def kills() -> ModuleType:
    return load_benchmark("kills")


def test_real_kills_are_spread_among_the_others_and_hit_every_victim(kills: ModuleType) -> None:
    planned = kills.plan(100, 20)
    assert len({kill.key for kill in planned}) == 100
    real = [kill.victim for kill in planned if kill.program == "real"]
    assert len(real) == 20 and set(real) == {"group", "main", "zygote", "child"}
    assert any(kill.program == "real" for kill in planned[:5])


def test_a_kill_is_read_back_as_it_was_written(kills: ModuleType, tmp_path: Path) -> None:
    outcome = kills.Outcome(
        "real/main/3", "real", "main", "1 s after the start", 7, 2, True, ("spoiled",), 3.0, ("file x",)
    )
    file = tmp_path / kills.KILLS_FILE
    file.write_text(kills.row_line(kills.asdict(outcome)) + '{"key"', encoding="utf-8")
    assert kills.read_outcomes(file) == {"real/main/3": outcome}
    text = kills.render([outcome], {"date": "d", "environment": WHERE, "command": "c"})
    assert "| real | main | 1 | 0 | 0 | 1 | 1 | 1 |" in text and "spoiled; file x" in text
