"""Classes made of a user's. In a delivered folder ``tasks/derived.py`` stands here."""

from kernelwright.tasks.derived import *  # noqa: F403
