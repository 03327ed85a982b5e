"""Who a child is: never root, and with none of root's powers left to take back."""

import os
from collections.abc import Sequence

from kernelwright.referee.sandbox.calls import NEW_USER, drop_capabilities, empty_bounding_set, unshare

_FIRST, _COUNT = 61184, 4336
"""User ids that systemd sets aside for short-lived services: no account and no file has one."""


def spare_user() -> int:
    """Return a user id for this process that nobody else has."""
    return _FIRST + os.getpid() % _COUNT


def become(user: int | None, groups: Sequence[int] = ()) -> None:
    """Change to another user, where one is given, and give up every capability. For good.

    The other user is in ``groups`` and in no others.
    """
    empty_bounding_set()
    if user is not None:
        os.setgroups(list(groups))
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    drop_capabilities()


def enter_user_namespace(unshare_flags: int) -> None:
    """Leave namespaces for new ones with a user namespace around them; stay who we are.

    Our own files stay readable; what the new namespaces own may be changed until ``become`` is called.
    """
    user, group = os.geteuid(), os.getegid()
    unshare(NEW_USER | unshare_flags)
    for name, text in (
        ("uid_map", f"{user} {user} 1"),
        ("setgroups", "deny"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
