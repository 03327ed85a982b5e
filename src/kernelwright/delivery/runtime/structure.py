"""The structure of nested arguments and results. In a delivered folder ``core/structure.py`` stands here."""

from kernelwright.core.structure import *  # noqa: F403
