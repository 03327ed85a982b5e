"""The growth of a store's answers: what is asked is answered, and what is read does not grow."""

import json
from pathlib import Path
from typing import Any

import pytest
from lab.benchmarks.store_growth import Writer, questions

from kernelwright.core.run import RunState
from kernelwright.store.sqlstore import SqlStore, open_store
from lab.benchmarks import store_growth


def written(where: Path, n: int) -> SqlStore:
    store = open_store(where)
    writer = Writer(store, 2)
    for number in range(1, n + 1):
        writer.write(number)
    assert isinstance(store, SqlStore)
    return store


def rows_read(store: SqlStore, question: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many rows a question takes out of the store, without the sums: as many as contexts."""
    numbers: list[int] = []
    original = SqlStore._read

    def read(self: SqlStore, query: Any) -> Any:
        rows = original(self, query)
        numbers.append(sum(not hasattr(row, "topic") for row in rows))
        return rows

    with monkeypatch.context() as patched:
        patched.setattr(SqlStore, "_read", read)
        question(store)
    return sum(numbers)


@pytest.mark.slow
def test_no_answer_reads_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = written(tmp_path / "few.db", 110), written(tmp_path / "many.db", 220)
    for name, question in questions(109).items():
        asked = [rows_read(store, question, monkeypatch) for store in (few, many)]
        assert asked[1] <= asked[0] + 10, name  # two runs more of each task are found


def test_what_is_written_is_whole(tmp_path: Path) -> None:
    store = written(tmp_path / "s.db", 3)
    records = store.newest_runs()
    assert [record.state for record in records] == [RunState.FINISHED] * 3
    assert [len(list(store.iter_candidates(record.run_id))) for record in records] == [2, 2, 2]
    assert store.count_learned() == (6, 3) and store.count_tasks() == 3


@pytest.mark.slow
def test_the_program_writes_figures_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = store_growth.main(
        ["--runs", "2", "4", "--candidates", "2", "--rounds", "1", "--out", str(tmp_path)]
    )
    assert code == 0 and "| runs list |" in capsys.readouterr().out
    result = json.loads((tmp_path / "store_growth.json").read_text(encoding="utf-8"))
    assert [row["candidates"] for row in result["rows"]] == [4, 8]
    picture = (tmp_path / "store_growth.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg") and "runs list" in picture and picture.count("<circle") == 24
