"""Finds the sandbox that works here by building one and working in it. ``python -m`` prints it as JSON."""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cache
from typing import Any, Final

from kernelwright.core.errors import MachineError, UserError
from kernelwright.referee.sandbox import bubblewrap, landlock, seccomp
from kernelwright.referee.sandbox.enter import Confinement, enter
from kernelwright.referee.sandbox.limits import ProcessLimits
from kernelwright.referee.sandbox.tiers import ORDER, Sandbox, Tier
from kernelwright.referee.sandbox.view import View, make_view, view_from_json
from kernelwright.referee.worker.driver import DRIVERS

_TRIAL_S = 120.0
_SCRATCH_BYTES = 1 << 20
_IN_THERE: Final = "--in-there"
"""First word on the command line of who was started by ``bwrap`` for a trial."""


def choose(view: View, at_most: Tier | None = None) -> Sandbox:
    """Return the strongest sandbox that works, not stronger than ``at_most``.

    If the view's driver works outside, it must work inside the sandbox too.

    Raises:
        MachineError: not even a limited child can be started.
    """
    why_not: dict[str, str] = {}
    can_drive = view.driver in DRIVERS and _in_child(DRIVERS[view.driver]) is None
    for option in _options():
        if at_most is not None and option.tier.strength > at_most.strength:
            continue
        attempt = _try_wrapped if option.tier is Tier.BUBBLEWRAP else _try
        problem = _misses(option) or attempt(option, view if can_drive else replace(view, driver=""))
        if problem is None:
            why_not.pop(option.tier.value, None)
            return replace(option, why_not=why_not)
        why_not[option.tier.value] = problem
    raise MachineError(f"no process can be confined here: {why_not[Tier.LIMITS]}")


def probe(at_most: Tier | None = None, device: str = "") -> Sandbox:
    """Return what ``choose`` finds in a small process of its own, for who works on a kind of device.

    Raises:
        MachineError: that process fails.
    """
    return from_json(foresee(at_most, device)["sandbox"])


def foresee(at_most: Tier | None = None, device: str = "", compiler: str = "") -> dict[str, Any]:
    """Return the same as JSON, ``sandbox``, and what was to be seen in it, ``view``; raises as ``probe``."""
    words = [at_most.value if at_most else ORDER[0].value, device, compiler]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kernelwright.referee.sandbox.choose", *words],
            capture_output=True, text=True, check=False, timeout=60, env=_environment(),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"the sandbox cannot be tried: {error}") from error
    if done.returncode != 0:
        last = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise MachineError(f"the sandbox cannot be tried: {last[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@cache
def tier_here() -> str | None:
    """Return the tier that works on this machine, None when it cannot be found; tried once per process."""
    try:
        return probe().tier.value
    except MachineError:
        return None


def from_json(values: dict[str, object]) -> Sandbox:
    """Return a sandbox from its JSON form."""
    return Sandbox(**{**values, "tier": Tier(str(values["tier"]))})  # type: ignore[arg-type]


def require(sandbox: Sandbox, wanted: str | None) -> None:
    """Raise UserError when the sandbox is weaker than the wanted tier, or when no such tier exists."""
    if wanted is None:
        return
    if wanted not in ORDER:
        raise UserError(f"--require-sandbox {wanted}: no such tier; there are {', '.join(ORDER)}")
    if sandbox.tier.strength >= Tier(wanted).strength:
        return
    reason = sandbox.why_not.get(wanted, "not possible here")
    raise UserError(
        f"--require-sandbox {wanted}: this machine gives {sandbox.tier.value} only ({reason}); "
        "see docs/threat-model.md for what that does not stop"
    )


def _options() -> Iterator[Sandbox]:
    """Yield the sandboxes that could be built, strongest first."""
    has_filter, version = _filter_works(), landlock.version()
    is_root = os.geteuid() == 0
    for tier in ORDER:
        may_change_user = is_root and tier is not Tier.BUBBLEWRAP
        for has_own_user in (True, False) if may_change_user else (False,):
            yield Sandbox(
                tier,
                has_user_namespace=tier is Tier.NAMESPACES and not has_own_user,
                has_own_user=has_own_user,
                landlock=version,
                has_filter=has_filter,
            )


def _misses(option: Sandbox) -> str | None:
    """Return why this machine lacks a part of the option's tier, None when it has all."""
    if option.tier not in (Tier.BUBBLEWRAP, Tier.LANDLOCK):
        return None
    if option.tier is Tier.BUBBLEWRAP and bubblewrap.find() is None:
        return bubblewrap.NOT_THERE
    if option.landlock < landlock.TRUNCATE_SINCE:
        return f"Landlock ABI {landlock.TRUNCATE_SINCE} is needed, the kernel has {option.landlock or 'none'}"
    return None if option.has_filter else "the kernel does not filter system calls"


def _filter_works() -> bool:
    def install() -> None:
        seccomp.install(seccomp.make_filter(alone_as=None, is_permissive=True))

    try:
        return _in_child(install) is None
    except OSError:
        return False


def _try(option: Sandbox, view: View) -> str | None:
    """Build the sandbox around a child that does what candidates do; return what went wrong, or None."""
    scratch = tempfile.mkdtemp(prefix="kernelwright-")
    parent = os.getpid()

    def look_around() -> None:
        enter(Confinement(option, view, ProcessLimits(scratch_bytes=_SCRATCH_BYTES), scratch), parent)
        _work()
        if view.driver:
            DRIVERS[view.driver]()

    try:
        return _in_child(look_around)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _try_wrapped(option: Sandbox, view: View) -> str | None:
    """Do the same as ``_try`` in a process inside ``bwrap``, where the zygote would be."""
    program = bubblewrap.find()
    if program is None:
        return bubblewrap.NOT_THERE
    with tempfile.TemporaryDirectory(prefix="kernelwright-", ignore_cleanup_errors=True) as scratch:
        words = json.dumps({"option": asdict(option), "view": asdict(view)})
        command = bubblewrap.wrap(program, view, [scratch], ends_with_thread=True)
        command += [sys.executable, "-m", "kernelwright.referee.sandbox.choose", _IN_THERE, words]
        try:
            said = bubblewrap.run(command, {**_environment(), "TMPDIR": scratch}, _TRIAL_S)
        except OSError as error:
            return str(error)
    problem = json.loads(said)
    return None if problem is None else str(problem)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _work() -> None:
    """Do what every candidate does: read the files of Python and torch, write a file, start a program."""
    for name in ("os", "torch", "numpy"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            with open(file, "rb") as opened:
                opened.read(1)
    with open("/proc/self/maps", "rb") as maps:
        maps.read(1)
    with open("trial", "w", encoding="ascii") as written:
        written.write("x")
    subprocess.run(
        [sys.executable, "-S", "-c", "pass"], check=True, timeout=_TRIAL_S, stdin=subprocess.DEVNULL
    )


def _in_child(work: Callable[[], object]) -> str | None:
    """Run a function in a forked child; return None when it finished, else the error in one line."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = "ok"
        try:
            work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}".partition("\n")[0]
        with contextlib.suppress(OSError):
            os.write(theirs, text[:300].encode())
        os._exit(0)
    os.close(theirs)
    is_there, _, _ = select.select([ours], [], [], _TRIAL_S)
    said = os.read(ours, 4096).decode(errors="replace") if is_there else "no answer"
    os.close(ours)
    with contextlib.suppress(ProcessLookupError):
        if said != "ok":
            os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None if said == "ok" else said or "the child ended without an answer"


def main() -> None:
    """Print the chosen sandbox; in a trial inside ``bwrap`` print what is wrong, or null."""
    if sys.argv[1:2] == [_IN_THERE]:
        words = json.loads(sys.argv[2])
        problem = _try(from_json(words["option"]), view_from_json(words["view"]))
        sys.stdout.write(json.dumps(problem) + "\n")
        return
    at_most, device, compiler = [*sys.argv[1:], "", "", ""][:3]
    view = _view_on(device, compiler) if device else make_view(compiler or None)
    found = choose(view, Tier(at_most) if at_most else None)
    sys.stdout.write(json.dumps({"sandbox": asdict(found), "view": asdict(view)}) + "\n")


def _view_on(name: str, compiler: str) -> View:
    # lazy: it needs packages that an interpreter on which this module is tried may not have
    from kernelwright.referee.device import parse_device

    device = parse_device(name)
    device.wake()
    return make_view(compiler or None, device.nodes(), device.files(), device.driver)


if __name__ == "__main__":
    main()
