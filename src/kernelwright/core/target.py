"""Where a candidate runs and in which language it is written."""

from collections.abc import Callable
from typing import Self

from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen

KNOWN_TARGETS = ("cpu/cpp",)
"""Targets that this version can build and measure."""
PRINTED_TARGETS = ("cuda/triton", "hip/triton")
"""Targets that kernels are printed for; building and measuring them needs a GPU."""

HasDevice = Callable[[str], bool]
"""Whether this machine has a kind of device; asked only where it matters."""
INSPECTED_TARGETS = ("cuda/cuda", "hip/hip")
"""Further targets whose candidates ``kernelwright inspect`` compiles; nothing of ours writes or runs them."""


class Target(Frozen):
    """A device and a language, written ``device/language``."""

    device: str
    """Device kind: ``cpu``, ``cuda`` or ``hip``."""
    language: str
    """Kernel language: ``cpp``, ``triton``, ``cuda`` or ``hip``."""

    def __str__(self) -> str:
        return f"{self.device}/{self.language}"

    @classmethod
    def parse(cls, text: str, *, to_run: bool = True, has_device: HasDevice | None = None) -> Self:
        """Parse ``device/language``; raises UserError listing the known targets.

        ``to_run`` False: targets that kernels are only printed for will do; so they do where ``has_device``
        says that their device is here.
        """
        if text in PRINTED_TARGETS and to_run and not (has_device and has_device(text.split("/")[0])):
            known = ", ".join(KNOWN_TARGETS)
            raise UserError(f"target {text!r} needs a GPU; this version builds and measures only: {known}")
        if text in INSPECTED_TARGETS:
            known = ", ".join(KNOWN_TARGETS)
            raise UserError(
                f"target {text!r} is one that `kernelwright inspect` builds kernels of; this version neither "
                f"writes nor runs them; targets to run: {known}"
            )
        if text not in (*KNOWN_TARGETS, *PRINTED_TARGETS):
            raise UserError(f"unknown target {text!r}; known: {', '.join(KNOWN_TARGETS)}")
        device, language = text.split("/")
        return cls(device=device, language=language)


CPU_CPP = Target(device="cpu", language="cpp")
"""C++ with OpenMP on the machine's own processor."""
