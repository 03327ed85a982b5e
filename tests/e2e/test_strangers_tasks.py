"""A stranger's task through every entrance: nothing of the user's is reached, nothing stays behind."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.strangers import ENDLESS, FORGED, HONEST, THIEF, ends

from kernelwright.api import capturing, run_space, run_tune
from kernelwright.api.optimizing import finish
from kernelwright.api.starting import begin
from kernelwright.core.budget import Budget
from kernelwright.core.errors import KernelwrightError, UserError
from kernelwright.core.places import AsText
from kernelwright.core.request import RunRequest, SpaceRequest, TuneRequest
from kernelwright.mcp.jobs import JOBS, JobContext
from kernelwright.referee.settings import RefereeSettings, make_referee_settings
from kernelwright.settings import Settings, load_settings

pytestmark = pytest.mark.slow

VARIABLE = "KERNELWRIGHT_TEST_STRANGERS"
KERNEL = HONEST.replace("class Model(", "class ModelNew(")


@dataclass
class Stranger:
    """A task that means harm, and where its harm would be seen."""

    source: str
    home: Path
    mark: str
    listener: socket.socket

    def has_done_nothing(self) -> bool:
        """Tell whether nothing was planted, nobody connected, and no process of it is left."""
        self.listener.setblocking(False)
        try:
            self.listener.accept()
        except BlockingIOError:
            return not (self.home / ".planted").exists() and ends(self.mark)
        return False


@pytest.fixture
def where(tmp_path: Path) -> Settings:
    return replace(load_settings(), store=f"sqlite:///{tmp_path / 'runs.db'}", confine_tasks=True)


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stranger]:
    monkeypatch.setenv(VARIABLE, "secret")
    home, mark = tmp_path / "home", f"mark-{tmp_path.name}-{id(tmp_path)}"
    home.mkdir()
    secret = home / "secret"
    secret.write_text("kept", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        source = THIEF.format(variable=VARIABLE, secret=secret, home=home, port=port, mark=mark)
        yield Stranger(source + HONEST, home, mark, listener)
    ends(mark, patience_s=0.0)


def job(name: str, **arguments: Any) -> Callable[[str, Settings], object]:
    return lambda task, where: JOBS[name](JobContext(where, lambda text: None), task=task, **arguments)


ENTRANCES: dict[str, Callable[[str, Settings], object]] = {
    "mcp lower_plan": job("lower_plan"),
    "mcp space": job("space"),
    "mcp tune": job("tune", options={"seconds": 5}),
    "mcp tune of a kernel": job("tune", kernel=KERNEL + "TUNE = {'A': [1, 2]}\n", options={"seconds": 5}),
    "mcp diagnose": job("diagnose", kernel=KERNEL),
    "mcp optimize": job("optimize", options={"budget": {"evaluations": 1}}),
    "space": lambda task, where: run_space(SpaceRequest(task=AsText(source=task)), settings=where),
    "tune": lambda task, where: run_tune(TuneRequest(task=AsText(source=task), seconds=5.0), settings=where),
    "optimize": lambda task, where: finish(
        begin(RunRequest(task=AsText(source=task), budget=Budget(evaluations=1)), settings=where),
        progress=False,
    ),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_thief_gets_nothing_and_is_told_in_one_line(
    stranger: Stranger, where: Settings, entrance: str
) -> None:
    with pytest.raises(KernelwrightError, match="had nothing") as refused:
        ENTRANCES[entrance](stranger.source, where)
    assert "\n" not in str(refused.value)
    assert stranger.has_done_nothing()


def test_the_thief_is_one_where_nothing_confines_it(stranger: Stranger) -> None:
    log = stranger.home / "log"
    with log.open("w") as file:  # no pipe: what stays behind would keep it open
        subprocess.run([sys.executable, "-c", stranger.source], stdout=file, stderr=file, check=False)
    assert "had environment, secret, home, network" in log.read_text(encoding="utf-8")
    assert (stranger.home / ".planted").exists() and not ends(stranger.mark, patience_s=0.0)


@pytest.mark.parametrize(
    ("entrance", "harm", "says"),
    [
        ("mcp lower_plan", ENDLESS, "no answer within"),
        ("space", ENDLESS, "no answer within"),
        ("mcp space", FORGED, "returned no graph"),
        ("tune", FORGED, "returned no graph"),
    ],
)
def test_a_task_without_end_or_with_a_bomb_is_told_in_one_line(
    where: Settings, entrance: str, harm: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(given: Settings) -> RefereeSettings:
        return replace(make_referee_settings(given), load_timeout_s=3.0)

    if harm == ENDLESS:
        monkeypatch.setattr(capturing, "make_referee_settings", impatient)
    with pytest.raises(UserError, match=says) as refused:
        ENTRANCES[entrance](harm + HONEST, where)
    assert "\n" not in str(refused.value)


def test_an_honest_stranger_is_served(where: Settings) -> None:
    whole = ENTRANCES["space"](HONEST, where)
    assert whole == ENTRANCES["space"](HONEST, replace(where, confine_tasks=False))
    written = ENTRANCES["mcp lower_plan"](HONEST, where)
    own = ENTRANCES["mcp lower_plan"](HONEST, replace(where, confine_tasks=False))
    assert written == own
