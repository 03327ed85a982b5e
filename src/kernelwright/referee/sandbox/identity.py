"""The user that a child runs as: never root, and without any capability of root, for good."""

import os
from collections.abc import Sequence

from kernelwright.referee.sandbox.calls import NEW_USER, drop_capabilities, empty_bounding_set, unshare

_FIRST, _COUNT = 61184, 4336
"""User ids that systemd reserves for short-lived services: no account and no file has one of them."""


def spare_user() -> int:
    """Return a user id for this process that no account has."""
    return _FIRST + os.getpid() % _COUNT


def become(user: int | None, groups: Sequence[int] = ()) -> None:
    """Change to another user, if one is given, and give up every capability, for good.

    The other user belongs to ``groups`` only.
    """
    empty_bounding_set()
    if user is not None:
        os.setgroups(list(groups))
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    drop_capabilities()


def enter_user_namespace(unshare_flags: int) -> None:
    """Move into a new user namespace and new namespaces inside it; the user stays the same.

    The user's own files stay readable. The process may change the new namespaces until it calls ``become``.
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
