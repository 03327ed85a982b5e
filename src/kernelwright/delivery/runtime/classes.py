"""Classes and functions taken apart. In a delivered folder ``tasks/classes.py`` stands here."""

from kernelwright.tasks.classes import *  # noqa: F403
