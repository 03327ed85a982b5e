"""Where a candidate runs and in which language it is written."""

from collections.abc import Callable
from typing import Self

from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen

KNOWN_TARGETS = ("cpu/cpp",)
"""Targets that this version can build and measure anywhere."""
PRINTED_TARGETS = ("cuda/triton", "hip/triton")
"""Targets that kernels are printed for; measuring them needs a GPU."""
WRITTEN_TARGETS = ("cuda/cuda",)
"""Targets that models, and people, write kernels for; building and measuring them needs a GPU."""

HasDevice = Callable[[str], bool]
"""Whether this machine has a kind of device; asked only where it matters."""
GPU_TARGETS = (*PRINTED_TARGETS, *WRITTEN_TARGETS)
INSPECTED_TARGETS = ("hip/hip",)
"""Targets whose candidates ``kernelwright inspect`` compiles. Kernelwright neither writes nor runs them."""


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

        ``to_run`` False: targets that kernels are only printed for will do; so do all that need a GPU where
        ``has_device`` says that theirs is here.
        """
        runs = ", ".join(KNOWN_TARGETS)
        if text in INSPECTED_TARGETS:
            raise UserError(
                f"target {text!r} is one that `kernelwright inspect` builds kernels of; this version neither "
                f"writes nor runs them; targets to run: {runs}"
            )
        if text not in (*KNOWN_TARGETS, *GPU_TARGETS):
            raise UserError(f"unknown target {text!r}; known: {', '.join((*KNOWN_TARGETS, *GPU_TARGETS))}")
        device, language = text.split("/")
        can_do_without = text in KNOWN_TARGETS or (text in PRINTED_TARGETS and not to_run)
        if not can_do_without and not (has_device and has_device(device)):
            raise UserError(
                f"target {text!r} needs a GPU that torch can use, and none is here; "
                f"to run without one: {runs}"
            )
        device, language = text.split("/")
        return cls(device=device, language=language)


CPU_CPP = Target(device="cpu", language="cpp")
"""C++ with OpenMP on the machine's own processor."""
