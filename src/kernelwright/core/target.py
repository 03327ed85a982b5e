"""The name of a target: where a candidate runs and in which language it is written."""

from typing import Self

from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen


class TargetName(Frozen):
    """A device and a language, written ``device/language``. ``targets/base.py`` has what stands behind it."""

    device: str
    """Kind of device, e.g. ``cpu`` or ``cuda``."""
    language: str
    """Kernel language, e.g. ``cpp`` or ``triton``."""

    def __str__(self) -> str:
        return f"{self.device}/{self.language}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``device/language``, known or not; raises UserError for text of another form.

        Example:
            >>> TargetName.parse("cpu/cpp").language
            'cpp'
        """
        device, _, language = text.partition("/")
        if not device or not language or "/" in language:
            raise UserError(f"target {text!r}: write DEVICE/LANGUAGE, such as cpu/cpp")
        return cls(device=device, language=language)


CPU_CPP = TargetName(device="cpu", language="cpp")
"""C++ with OpenMP on the machine's own processor: the default."""
