"""C++ with OpenMP on the processor."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kernelwright.core.target import CPU_CPP as NAME
from kernelwright.targets.base import Build, Loader, Prompting, Target
from kernelwright.targets.device import PROCESSOR

if TYPE_CHECKING:
    from kernelwright.ir.lowering import Lowering, Write


class CppTarget(Target):
    """``cpu/cpp``: one C function a region, compiled by g++ or clang++."""

    name = NAME
    device = PROCESSOR
    kernel_words = ("CPP_SOURCE", "load_inline", "ctypes", "cffi", "numba")

    @cached_property
    def lowering(self) -> "Lowering":
        """The rules and edits of ``schedules/``."""
        # lazy: loads torch
        from kernelwright.targets.cpp.lowering import LOWERING

        return LOWERING

    @cached_property
    def writer(self) -> "Write":
        """Writes ``CPP_SOURCE`` and what calls it."""
        # lazy: loads torch
        from kernelwright.targets.cpp.candidate import render_cpp_candidate

        return render_cpp_candidate

    @cached_property
    def build(self) -> Build:
        """Compiles ``CPP_SOURCE``."""
        # lazy: needed where candidates are judged
        from kernelwright.targets.cpp.build import build_cpp

        return build_cpp

    def combined(self, programs: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Put the C++ of all of them into one ``CPP_SOURCE``."""
        # lazy: needed where models are put together
        from kernelwright.targets.cpp.combine import combine_cpp

        return combine_cpp(programs)

    @cached_property
    def loader(self) -> Loader:
        """Compiles and opens ``CPP_SOURCE``."""
        # lazy: needed where models are asked
        from kernelwright.targets.cpp.prompting import CPP_LOADER

        return CPP_LOADER

    @cached_property
    def prompting(self) -> Prompting:
        """What models are told of C++."""
        # lazy: needed where models are asked
        from kernelwright.targets.cpp.prompting import CPP_PROMPTING

        return CPP_PROMPTING


CPU_CPP = CppTarget()
