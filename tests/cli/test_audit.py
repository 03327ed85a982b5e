"""``kernelwright audit``: what it lists, how it ends; the referee is elsewhere (tests/corpus)."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.evaluation import Check, Status
from kernelwright.corpus import audit as corpus_audit
from kernelwright.corpus.audit import SpecimenResult
from kernelwright.corpus.specimen import Specimen

Judge = Callable[..., Iterator[SpecimenResult]]


def stub(outcome: Status, check: Check | None) -> Judge:
    """Return an audit in which every specimen ends like this."""

    def judge(specimens: Sequence[Specimen], *how: Any, device: str) -> Iterator[SpecimenResult]:
        for specimen in specimens:
            yield SpecimenResult(specimen=specimen, outcome=outcome, check=check, detail="why", seconds=1.0)

    return judge


def test_listing_judges_nothing_and_says_how_each_must_end(cli: Any) -> None:
    result = cli("audit", "--list", "--family", 34)
    assert result.code == 0
    assert "34_zeros" in result.out and "incorrect_numerics by oracle" in result.out
    assert "none judged" in result.out


def test_all_as_expected_exits_0_and_writes_both_files(
    cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(corpus_audit, "audit", stub(Status.INCORRECT_NUMERICS, Check.ORACLE))
    result = cli("audit", "--only", "34_*", "--json", "--out", tmp_path)
    assert result.code == 0
    document = json.loads(result.out)
    assert document["ok"] and {f["name"] for f in document["findings"]} == {"34_uniform", "34_zeros"}
    assert document == json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert "| `34_zeros` |" in (tmp_path / "cheats.md").read_text(encoding="utf-8")
    assert "[2/2]" in result.err


@pytest.mark.parametrize(("outcome", "check"), [(Status.VERIFIED, None), (Status.REJECTED, Check.CLOCK)])
def test_one_that_is_accepted_or_found_by_another_check_exits_1(
    cli: Any, monkeypatch: pytest.MonkeyPatch, outcome: Status, check: Check | None
) -> None:
    monkeypatch.setattr(corpus_audit, "audit", stub(outcome, check))
    result = cli("audit", "--only", "34_zeros")
    assert result.code == 1
    assert "not as expected" in result.out and "NOT AS EXPECTED" in result.err


def test_no_such_specimen_is_wrong_usage(cli: Any) -> None:
    result = cli("audit", "--only", "nothing*")
    assert result.code == 2
    assert "no specimen" in result.err


def test_what_an_interrupted_audit_has_judged_is_kept_and_gone_on_with(
    cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def judge(specimens: Sequence[Specimen], *how: Any, device: str) -> Iterator[SpecimenResult]:
        for number, specimen in enumerate(specimens):
            asked.append(specimen.name)
            yield SpecimenResult(
                specimen=specimen, outcome="incorrect_numerics", check=Check.ORACLE, seconds=1.0
            )
            if number == 0 and len(specimens) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(corpus_audit, "audit", judge)
    stopped = cli("audit", "--only", "34_*", "--out", tmp_path)
    assert stopped.code == 130 and "go on with --resume" in stopped.err
    left = json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert (left["left"], [f["name"] for f in left["findings"]]) == (1, ["34_uniform"])
    assert cli("audit", "--only", "34_*", "--out", tmp_path, "--resume", "--naive").code == 2
    went_on = cli("audit", "--only", "34_*", "--out", tmp_path, "--resume", "--json")
    assert went_on.code == 0 and asked == ["34_uniform", "34_zeros"]
    assert (went_on.json["left"], len(went_on.json["findings"])) == (0, 2)


def test_a_device_that_is_not_there_is_wrong_usage(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.targets.gpu.torch_devices.has_gpu", lambda kind: False)
    result = cli("audit", "--device", "hip", "--only", "34_zeros")
    assert result.code == 2 and "--device hip: torch finds no such device" in result.err
    assert cli("audit", "--resume").code == 2
