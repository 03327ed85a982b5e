"""Namespaces by way of ``bwrap``: what it is asked for, what is said where there is none, the real one."""

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.referee.conftest import HEAD, POINTWISE, judge

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Status
from kernelwright.core.task import Task
from kernelwright.corpus.audit import judge_specimen
from kernelwright.corpus.load import load_corpus_task, load_specimens
from kernelwright.referee.sandbox import Sandbox, Tier, bubblewrap, calls
from kernelwright.referee.sandbox.choose import choose, require
from kernelwright.referee.sandbox.pid_handshake import first_word, listening_pair, say_ready
from kernelwright.referee.sandbox.processes import ENDED, children_of, family_of, state_of
from kernelwright.referee.sandbox.view import View, make_view
from kernelwright.referee.session import launcher
from kernelwright.referee.session.launcher import ChildDied
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.session.zygote_process import ZygoteProcess
from kernelwright.referee.settings import RefereeSettings

needs_linux = pytest.mark.skipif(platform.system() != "Linux", reason="processes are confined on Linux only")
pytestmark = needs_linux


@cache
def found_here() -> Sandbox:
    return choose(make_view(), Tier.BUBBLEWRAP)


@pytest.fixture(scope="module")
def real() -> None:
    if bubblewrap.find() is None:
        pytest.skip("needs bubblewrap: bwrap is not on PATH")
    if found_here().tier is not Tier.BUBBLEWRAP:
        pytest.skip(f"bwrap does not work here: {found_here().why_not['bubblewrap']}")


def put_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A stand-in for bwrap, where its failures are looked at."""
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(("user", "own"), [(0, ["--unshare-user-try"]), (1000, [])])
def test_it_is_asked_for_namespaces_and_for_what_the_view_shows_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, own: list[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    shown, node = tmp_path / "shown", tmp_path / "nvidia0"
    shown.mkdir()
    node.touch()
    words = bubblewrap.wrap("bwrap", View((str(shown),), (str(node),)), ["/scratch"], ["/cache"])
    assert words == [
        "bwrap",
        "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        "--as-pid-1", "--cap-drop", "ALL", *own,
        "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev",
        "--ro-bind", str(shown), str(shown),
        "--dev-bind-try", str(node), str(node),
        "--ro-bind", "/cache", "/cache",
        "--bind", "/scratch", "/scratch",
        "--remount-ro", "/", "--chdir", "/", "--",
    ]  # fmt: skip


def test_nothing_that_can_be_written_to_is_shown_but_the_scratch() -> None:
    words = bubblewrap.wrap("bwrap", make_view(), ["/scratch"])
    assert [words[i + 1] for i, word in enumerate(words) if word == "--bind"] == ["/scratch"]
    assert "--dev-bind-try" not in words and "--share-net" not in words


def test_a_link_is_shown_by_its_other_name_unless_it_is_seen_anyway(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "shown").mkdir()
    for link in (tmp_path / "link", tmp_path / "shown" / "link"):
        link.symlink_to(tmp_path / "real")
    view = View(tuple(str(tmp_path / name) for name in ("link", "shown", "shown/link")))
    words = bubblewrap.wrap("bwrap", view, [])
    mounted = {words[i + 2]: words[i + 1] for i, word in enumerate(words) if word == "--ro-bind"}
    own = str(tmp_path / "real")
    assert mounted == {
        own: own,
        str(tmp_path / "link"): own,
        str(tmp_path / "shown"): str(tmp_path / "shown"),
    }


def test_one_that_is_not_there_is_said_to_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = choose(make_view(), Tier.BUBBLEWRAP)
    assert found.tier.strength < Tier.BUBBLEWRAP.strength
    if found.tier is Tier.LANDLOCK:
        assert found.why_not == {"bubblewrap": "bwrap is not installed"}


def test_one_that_fails_is_told_in_its_last_words_and_a_weaker_tier_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(
        tmp_path,
        monkeypatch,
        "echo first >&2; echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
    )
    found = choose(make_view(), Tier.BUBBLEWRAP)
    assert found.tier.strength < Tier.BUBBLEWRAP.strength
    if found.tier is Tier.LANDLOCK:
        assert found.why_not == {"bubblewrap": "bwrap: No permissions to create new namespace"}
    with pytest.raises(UserError, match="--require-sandbox bubblewrap"):
        require(found, "bubblewrap")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "bwrap ended with exit code 3"),
        ("exit 0", "bwrap ended with exit code 0"),
        ("echo no >&2; exit 1", "no"),
        ("exec sleep 60", "bwrap is not done within 1 s"),
    ],
)
def test_a_trial_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    put_on_path(tmp_path, monkeypatch, script)
    with pytest.raises(OSError, match=words):
        bubblewrap.run([bubblewrap.find() or "", "--", "true"], dict(os.environ), 1.0)


def test_what_a_failed_trial_leaves_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(tmp_path, monkeypatch, f"sleep 600 & echo $! > {tmp_path}/left; exit 1")
    with pytest.raises(OSError, match="exit code 1"):
        bubblewrap.run([bubblewrap.find() or ""], dict(os.environ), 60.0)
    left = int((tmp_path / "left").read_text(encoding="ascii"))
    _wait_for(lambda: state_of(left) in ENDED)


def test_a_first_word_tells_the_process_as_it_is_called_here() -> None:
    ours, theirs = listening_pair()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            calls.unshare(calls.NEW_PIDS if os.geteuid() == 0 else calls.NEW_USER | calls.NEW_PIDS)
            if (inner := os.fork()) == 0:
                if os.getpid() == 1:
                    say_ready(theirs.fileno())
                os._exit(0)
            os.write(theirs.fileno(), str(inner).encode())
            os.waitpid(inner, 0)
        os._exit(0)
    theirs.close()
    with ours:
        pid, problem = first_word(ours)
        os.waitpid(child, 0)
    if (pid, problem) == (0, "the child ended without an answer"):
        pytest.skip("no process table of its own can be made here")
    assert pid not in (0, 1)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A temporary directory that only this module's referee uses."""
    before, folder = tempfile.tempdir, tmp_path_factory.mktemp("temporary")
    tempfile.tempdir = str(folder)
    yield folder
    tempfile.tempdir = before


@pytest.fixture(scope="module")
def kept(real: None, tmp_path_factory: pytest.TempPathFactory, temporary: Path) -> Iterator[Referee]:
    settings = RefereeSettings(
        cache_dir=tmp_path_factory.mktemp("cache"), sandbox="bubblewrap", search_timing_s=0.05,
        load_timeout_s=20.0, call_timeout_s=5.0, build_timeout_s=60.0,
        worker_address_space_bytes=4 << 30, worker_total_bytes=1 << 30, worker_scratch_bytes=64 << 20,
    )  # fmt: skip
    with Referee(settings) as referee:
        yield referee


SEEN = f"""{HEAD}
import json, os
from pathlib import Path

class ModelNew(nn.Module):
    pass

def _names(path):
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return type(error).__name__

status = dict(line.split(":\\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
seen = [os.getpid(), status["CapBnd"], status["NoNewPrivs"], _names("/home"), _names("..")]
raise ValueError(json.dumps(seen))
"""


def test_an_honest_kernel_is_verified_in_there(real: None, kept: Referee) -> None:
    with kept.open(Task(name="pointwise", source=POINTWISE)) as session:
        evaluation = judge(session, "return torch.relu(x) * 2 + 1")
        assert (evaluation.status, evaluation.sandbox) == (Status.VERIFIED, Tier.BUBBLEWRAP)
        seen = session.evaluate(Candidate(source=SEEN))
    assert seen.status is not Status.VERIFIED
    pid, bounding, no_new, *names = json.loads(seen.detail.partition("ValueError: ")[2])
    assert pid < 100 and int(bounding, 16) == 0 and no_new == "1"
    assert names == ["PermissionError", "PermissionError"] or names == [
        "FileNotFoundError",
        "PermissionError",
    ]


@pytest.mark.parametrize(
    "name", ["48_kills_parent", "18_reads_other_candidates", "48_daemon", "48_memory_bomb_in_children"]
)
def test_a_hostile_program_is_contained_in_there(
    real: None, kept: Referee, temporary: Path, name: str
) -> None:
    specimen = next(one for one in load_specimens() if one.name == name)
    with kept.open(load_corpus_task("pointwise")) as session:
        before = traces(temporary)
        finding = judge_specimen(session, specimen, {})
        assert finding.is_as_expected and finding.control == Status.VERIFIED, finding
        assert traces(temporary) == before


def traces(temporary: Path) -> tuple[set[int], list[str]]:
    """Our processes and all files in the temporary directory."""
    return set(family_of(os.getpid())), sorted(map(str, temporary.rglob("*")))


def test_a_childs_number_is_the_one_it_has_here(real: None, kept: Referee) -> None:
    child = kept._launcher.spawn_worker(1 << 30)
    try:
        assert child.pid in family_of(child.keeper) and child.keeper in family_of(os.getpid())
        os.kill(child.pid, signal.SIGSEGV)
        with pytest.raises(ChildDied, match="SIGSEGV"):
            child.call("map", 60.0)
        assert state_of(child.pid) is None
    finally:
        child.kill()


def test_the_second_one_is_started_once_and_before_the_first_is_ready(
    real: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    class Recorded(ZygoteProcess):
        def __init__(self, options: Any, environment: Any, before: Sequence[str] = ()) -> None:
            events.append("bwrap" if before else "plain")
            super().__init__(options, environment, before)

        def hello(self) -> Any:
            events.append("asked")
            return super().hello()

    monkeypatch.setattr(launcher, "ZygoteProcess", Recorded)
    with contextlib.closing(
        launcher.Launcher(RefereeSettings(cache_dir=tmp_path, sandbox="bubblewrap"))
    ) as begun:
        begun.spawn_worker(1 << 30).kill()
    assert events[:3] == ["plain", "bwrap", "asked"] and events.count("bwrap") == 1


def test_should_the_process_that_forks_them_die_the_next_one_is_started(real: None, kept: Referee) -> None:
    owner = kept._launcher
    child = owner.spawn_worker(1 << 30)
    (forking,) = [pid for pid in family_of(os.getpid()) if child.pid in children_of(pid)]
    os.kill(forking, signal.SIGKILL)
    _wait_for(lambda: state_of(child.pid) in ENDED)
    with pytest.raises(ChildDied):
        child.call("map", 60.0)
    _wait_for(lambda: owner._wrapped is not None and not owner._wrapped.is_running)
    owner.spawn_worker(1 << 30).kill()


def test_nothing_lives_on_when_who_judges_is_killed(real: None, tmp_path: Path) -> None:
    program = f"""
    import sys
    from pathlib import Path
    from kernelwright.referee.session.launcher import Launcher
    from kernelwright.referee.settings import RefereeSettings
    launcher = Launcher(RefereeSettings(cache_dir=Path({str(tmp_path)!r}), sandbox="bubblewrap"))
    child = launcher.spawn_worker(1 << 30)
    print(child.pid, flush=True)
    sys.stdin.read()
    """
    judging = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    assert judging.stdout is not None
    child = int(judging.stdout.readline())
    family = family_of(judging.pid)
    assert child in family and len(family) >= 5
    judging.kill()
    judging.communicate()
    for pid in family:
        _wait_for(lambda pid=pid: state_of(pid) in ENDED)  # type: ignore[misc]
