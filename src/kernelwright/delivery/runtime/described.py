"""Hashes of objects, classes and functions. In a delivered folder ``tasks/described.py`` stands here."""

from kernelwright.tasks.described import *  # noqa: F403
