"""Random generators kept where they stand. In a delivered folder ``tasks/randomness.py`` stands here."""

from kernelwright.tasks.randomness import *  # noqa: F403
