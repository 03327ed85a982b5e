"""The referee of this process, as every command opens it."""

from dataclasses import replace

from kernelwright.core.policy import Policy
from kernelwright.delivery.program import DELIVERED
from kernelwright.machine.device_lease import Tell
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import make_referee_settings
from kernelwright.settings import Settings, load_settings


def open_referee(
    settings: Settings | None = None,
    policy: Policy | None = None,
    *,
    device: str = "cpu",
    tell: Tell | None = None,
    is_search: bool = False,
) -> Referee:
    """Return a referee to use as a context manager; several runs may share it, one after the other.

    Args:
        settings: where caches are; default: ``load_settings()``.
        policy: what it judges by, the default one when None; runs that share it must have the same.
        device: where candidates run: ``cpu``, ``cuda``, ``cuda:N``, ``hip`` or ``hip:N``.
        tell: is told in one line what an evaluation waits for; None: the log, as a warning.
        is_search: replay only who leads; whoever decides something has a final made.
    """
    found = make_referee_settings(settings or load_settings(), policy, device=device)
    return Referee(replace(found, delivered=DELIVERED, replays_leaders_only=is_search), tell)
