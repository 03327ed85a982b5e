"""Where a candidate runs and in which language it is written."""

from typing import Self

from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen

KNOWN_TARGETS = ("cpu/cpp",)
"""Targets that this version can build and measure."""


class Target(Frozen):
    """A device and a language, written ``device/language``."""

    device: str
    """Device kind: ``cpu``; later ``cuda`` and ``hip``."""
    language: str
    """Kernel language: ``cpp``; later ``triton``, ``cuda`` and ``hip``."""

    def __str__(self) -> str:
        return f"{self.device}/{self.language}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``device/language``; raises UserError listing the known targets."""
        if text not in KNOWN_TARGETS:
            raise UserError(f"unknown target {text!r}; known: {', '.join(KNOWN_TARGETS)}")
        device, language = text.split("/")
        return cls(device=device, language=language)


CPU_CPP = Target(device="cpu", language="cpp")
"""C++ with OpenMP on the machine's own processor."""
