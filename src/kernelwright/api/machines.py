"""What a request says of places, resolved on this machine: sandbox, target, device, baselines, facts.

Each question is answered in one function here, for every command alike.
"""

from collections.abc import Sequence
from dataclasses import replace

from kernelwright.core.digest import content_digest
from kernelwright.core.errors import UserError
from kernelwright.core.evidence import FactValue
from kernelwright.core.machine import Machine
from kernelwright.core.target import TargetName
from kernelwright.referee.baselines import known_baselines, package_versions
from kernelwright.referee.device import parse_device
from kernelwright.referee.sandbox import choose
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.machine import machine_of_run
from kernelwright.settings import Settings, load_settings
from kernelwright.targets.registry import find_target


def bound_settings(
    settings: Settings | None = None,
    require_sandbox: str | None = None,
    *,
    confine_tasks: bool = False,
    profile_unconfined: bool = False,
) -> Settings:
    """Return the settings with the sandbox that is required, which is there, and with whom it is for.

    Raises:
        UserError: this machine's sandbox is weaker, a configuration is at fault, or a stranger's task would
            be profiled unconfined.
    """
    where = settings or load_settings()
    wanted = require_sandbox or where.require_sandbox
    if wanted is not None:
        choose.require(choose.probe(), wanted)
    is_confined = confine_tasks or where.confine_tasks
    is_profiled = profile_unconfined or where.profile_unconfined
    if is_confined and is_profiled:
        raise UserError(
            "--profile-unconfined runs the task, too, outside the sandbox; leave out --confine-tasks"
        )
    return replace(where, require_sandbox=wanted, confine_tasks=is_confined, profile_unconfined=is_profiled)


def parse_target(text: str, *, is_elsewhere: bool = False) -> TargetName:
    """Return the target; raises UserError where it is unknown, or is to run on a GPU that is not here.

    ``is_elsewhere``: candidates are judged on another machine, or their measurements are replayed.
    """
    return find_target(text, has_device=(lambda kind: True) if is_elsewhere else None).name


def machine_for(target: TargetName, settings: Settings, evaluator: Evaluator | None = None) -> Machine:
    """Return the machine that candidates are planned for and judged on: this one, or an evaluator's.

    Raises:
        MachineError: no compiler to measure the machine's peaks with, or the evaluator does not answer.
    """
    return machine_of_run(target, settings.cache_dir, evaluator, sandbox=choose.tier_here())


def require_device(device: str) -> None:
    """Raise UserError where there is no such device."""
    found = parse_device(device)
    if found.has_driver and not found.about.is_here():
        raise UserError(
            f"--device {device}: torch finds no such device here; leave it out to judge on the CPU"
        )


def parse_baselines(names: Sequence[str] | None, device: str) -> tuple[str, ...]:
    """Return the baselines to compare with.

    Raises:
        UserError: there is no such baseline or no such device, or what the baseline needs is not installed.
    """
    known = known_baselines(device)
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise UserError(f"unknown baseline {unknown[0]!r}; known: {', '.join(known)}")
    for package in (package for package, found in package_versions(names or ()).items() if found is None):
        raise UserError(
            f"the baseline needs {package}, which is not installed: pip install 'kernelwright[peers]'"
        )
    return tuple(dict.fromkeys(names or ("eager",)))


def further_baselines(names: Sequence[str] | None, target: str) -> tuple[str, ...] | None:
    """Return what is to be compared with: always with eager, too; None: nothing else was asked for.

    Raises:
        UserError: there is no such baseline on the target's device.
    """
    if not names:
        return None
    return tuple(dict.fromkeys(("eager", *parse_baselines(names, target.partition("/")[0]))))


def environment_of(machine: Machine) -> dict[str, FactValue]:
    """Return what figures hold for: the machine, the referee's version, which source of this package ran."""
    return {
        **machine.environment(), "referee": REFEREE_VERSION, "kernelwright_source": content_digest(),
    }  # fmt: skip
