"""``kernelwright store``: runs from one store into another."""

from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.events import CandidateWritten
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.store_contract import make_outcome, make_spec


@pytest.fixture
def run_id(cli: Any, tmp_path: Path) -> str:
    """A run in the configured store."""
    store = open_store(tmp_path / "runs.db")
    found = store.create_run(make_spec())
    store.add_outcome(make_outcome(run_id=found))
    store.close()
    return found


@pytest.mark.parametrize("verb", ["export", "import"])
def test_every_command_offers_json_and_help(cli: Any, verb: str) -> None:
    result = cli("store", verb, "--help")
    assert result.code == 0 and "--json" in result.out and "--store" in result.out


def test_what_was_exported_is_imported_once(cli: Any, run_id: str, tmp_path: Path) -> None:
    assert "copied 1 runs, 1 outcomes" in cli("store", "export", "out.db").out
    assert cli("store", "import", "out.db", "--store", "new.db", "--json").json["runs"] == 1
    again = cli("store", "import", "out.db", "--store", "new.db", "--json").json
    assert (again["runs"], again["outcomes"], again["unchanged"]) == (0, 0, 1)
    assert run_id in cli("runs", "list", "--store", "new.db").out


def test_a_run_that_went_on_otherwise_there_is_named(cli: Any, run_id: str, tmp_path: Path) -> None:
    cli("store", "export", "out.db")
    for n, name in enumerate(("runs.db", "out.db")):
        store = open_store(tmp_path / name)
        store.append_event(run_id, CandidateWritten(step=1, candidate=f"c{n}"))
        store.close()
    assert f"went on otherwise in the other store: {run_id}" in cli("store", "export", "out.db").out
    assert cli("store", "export", "out.db", "--json").json["diverged"] == [run_id]


def test_a_run_is_named_by_its_beginning(cli: Any, run_id: str) -> None:
    assert cli("store", "export", "out.db", "--run", run_id[:6], "--json").json["runs"] == 1
    wrong = cli("store", "export", "out.db", "--run", "nothing")
    assert wrong.code == 2 and "no run 'nothing'" in wrong.err


def test_a_store_that_is_not_there_is_not_imported(cli: Any, tmp_path: Path) -> None:
    wrong = cli("store", "import", "nowhere.db")
    assert wrong.code == 2 and "there is no store" in wrong.err and not (tmp_path / "nowhere.db").exists()
