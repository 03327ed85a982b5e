"""The candidate file for C++: one Python source that needs torch, the standard library and a compiler."""

from kernelwright.core.errors import LoweringError
from kernelwright.core.task import Task
from kernelwright.ir.arguments import signature
from kernelwright.ir.extents import dims_in
from kernelwright.ir.lowering import Programs
from kernelwright.ir.program import Region
from kernelwright.targets.cpp.printer import print_source
from kernelwright.targets.cpp.runtime_source import LOADER, LOADER_IMPORTS, cxx_flags
from kernelwright.targets.module_file.candidate import CandidateWriter


def render_cpp_candidate(task: Task, programs: Programs, note: str) -> str:
    """Return the source of a candidate with C++ kernels (see ``ir.lowering.Write``)."""
    return CppWriter(task, programs, note).text()


class CppWriter(CandidateWriter):
    """Kernels are C functions that take addresses."""

    takes_addresses = True

    def generated(self, regions: list[Region]) -> list[str]:
        """Return ``CPP_SOURCE``, its loader, and a variable for each function."""
        if not regions:
            return []
        kernels = "\n".join(line for region in regions for line in _kernel_lines(region))
        return [self._cpp(regions), LOADER.strip(), kernels]

    def function_name(self, region: Region) -> str:
        """Return the variable that holds a region's C function."""
        return f"_{region.name}"

    def imports(self, has_kernels: bool) -> str:
        """Return the import statements."""
        names = list(LOADER_IMPORTS) if has_kernels else []
        if self.needs_base64:
            names.append("base64")
        lines = [f"import {name}" for name in sorted(names)]
        lines += ["from pathlib import Path"] if has_kernels else []
        return "\n".join([*lines, "", "import torch", "from torch import nn"]).strip()

    def _cpp(self, regions: list[Region]) -> str:
        try:
            source = print_source(tuple(regions))
        except (KeyError, StopIteration, AssertionError) as error:
            raise LoweringError(f"the C++ printer cannot print this program: {error!r}") from error
        flags = ", ".join(f'"{flag}"' for flag in cxx_flags())
        return f"CPP_SOURCE = r'''\n{source}'''\n\nCXX_FLAGS = ({flags})"


def _kernel_lines(region: Region) -> list[str]:
    """Return the statements that define the function of a region; extents come after its tensors."""
    lines = [f'_{region.name} = _kernel("{region.name}", {len(signature(region))})']
    if dims := dims_in(region):
        types = f"*_{region.name}.argtypes, *[ctypes.c_int64] * {len(dims)}"
        lines.append(f"_{region.name}.argtypes = ({types},)")
    return lines
