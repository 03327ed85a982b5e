"""``--require-sandbox`` and what ``doctor`` says of the sandbox."""

from pathlib import Path
from typing import Any, get_args

import pytest

from kernelwright.cli import doctor
from kernelwright.core.errors import MachineError
from kernelwright.core.options import SandboxTier
from kernelwright.referee.sandbox import Sandbox, Tier, choose, report
from kernelwright.referee.sandbox.tiers import ORDER
from kernelwright.referee.settings import RefereeSettings
from kernelwright.settings import SANDBOX_VARIABLE

WEAK = Sandbox(Tier.LIMITS, why_not={"namespaces": "not permitted", "landlock": "the kernel has none"})
STRONG = Sandbox(Tier.NAMESPACES, has_own_user=True, landlock=7, has_filter=True)
COMMANDS = (
    ["optimize", "task.py"],
    ["evaluate", "task.py", "kernel.py"],
    ["bench", "suite"],
    ["compare", "suite"],
    ["check", "suite"],
    ["inspect", "kernel.py"],
    ["runs", "resume", "any"],
    ["serve", "--no-token"],
    ["audit"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_weaker_sandbox_is_refused_before_anything_else(
    cli: Any, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr(choose, "probe", lambda: WEAK)
    result = cli(*command, "--require-sandbox", "landlock")
    assert result.code == 2
    assert "--require-sandbox landlock" in result.err and "the kernel has none" in result.err


def test_an_unknown_tier_is_wrong_usage(cli: Any) -> None:
    assert cli("evaluate", "task.py", "kernel.py", "--require-sandbox", "fortress").code == 2


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_the_environment_variable_binds_every_command_too(
    cli: Any, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv(SANDBOX_VARIABLE, "namespaces")
    monkeypatch.setattr(choose, "probe", lambda: WEAK)
    result = cli(*command)
    assert result.code == 2 and "--require-sandbox namespaces: this machine gives limits only" in result.err
    monkeypatch.setenv(SANDBOX_VARIABLE, "fortress")
    result = cli(*command)
    assert result.code == 2 and "KERNELWRIGHT_REQUIRE_SANDBOX: 'fortress' is none of namespaces" in result.err


def test_the_tiers_of_requests_are_those_there_are() -> None:
    assert get_args(SandboxTier) == ORDER


@pytest.mark.parametrize("how", ["option", "environment"])
def test_what_is_required_goes_on_to_the_referee(
    cli: Any, monkeypatch: pytest.MonkeyPatch, task_file: Path, how: str
) -> None:
    asked: list[str | None] = []

    def refuse(settings: RefereeSettings, tell: object = None) -> None:
        asked.append(settings.require_sandbox)
        raise MachineError("far enough")

    monkeypatch.setattr(choose, "probe", lambda: STRONG)
    for module in ("api.referees.Referee", "referee.checkup.checker.Checker"):
        monkeypatch.setattr(f"kernelwright.{module}", refuse)
    words = ["--require-sandbox", "landlock"] if how == "option" else []
    monkeypatch.setenv(SANDBOX_VARIABLE, "" if how == "option" else "landlock")
    for command in (["optimize", task_file], ["evaluate", task_file, task_file], ["check", task_file]):
        assert "far enough" in cli(*command, *words).err
    for command in (["bench", task_file], ["compare", task_file], ["audit", "--only", "34_*"]):
        assert "far enough" in cli(*command, *words).err
    assert asked == ["landlock"] * 6


def test_doctor_names_the_tier_and_what_it_does_not_stop(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.machine.doctor.checks", lambda cache_dir, further: ())
    for sandbox, is_ok in ((STRONG, True), (WEAK, False)):
        monkeypatch.setattr(report, "probe", lambda sandbox=sandbox: sandbox)
        check, _ = cli("doctor", "--json").json["checks"]
        assert check["ok"] is is_ok and check["value"].startswith(sandbox.tier)
        assert all(words in check["advice"] for words in sandbox.not_stopped)
    assert "no landlock: the kernel has none" in check["advice"]
    assert doctor.doctor.__doc__ is not None and "sandbox" in doctor.doctor.__doc__


def test_doctor_survives_a_sandbox_that_cannot_be_tried(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Sandbox:
        raise MachineError("no child can be started")

    monkeypatch.setattr("kernelwright.machine.doctor.checks", lambda cache_dir, further: ())
    monkeypatch.setattr(report, "probe", fail)
    result = cli("doctor", "--json")
    assert result.code == 2
    assert result.json["checks"][0]["advice"] == "no child can be started"
