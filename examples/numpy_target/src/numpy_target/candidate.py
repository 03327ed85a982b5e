"""The candidate file: the reference's constructor, a ``forward`` that allocates, and NumPy functions."""

from kernelwright.core.task import Task
from kernelwright.ir.lowering import Programs
from kernelwright.ir.program import Region
from kernelwright.targets.module_file.candidate import CandidateWriter
from numpy_target.printer import HELPERS, print_region


def render_numpy_candidate(task: Task, programs: Programs, note: str) -> str:
    """Return the source of a candidate (see ``kernelwright.ir.lowering.Write``)."""
    return NumpyWriter(task, programs, note).text()


class NumpyWriter(CandidateWriter):
    """Each region becomes a Python function that takes tensors; everything else is Kernelwright's."""

    def imports(self, has_kernels: bool) -> str:
        """Return the import statements."""
        lines = ["import base64", ""] if self.needs_base64 else []
        lines += ["import math", "", "import numpy as np"] if has_kernels else []
        return "\n".join([*lines, "import torch", "from torch import nn"])

    def generated(self, regions: list[Region]) -> list[str]:
        """Return the helpers, then one function for each region."""
        parts = [HELPERS.strip(), *(print_region(region) for region in regions)] if regions else []
        return [f"\n{part}" for part in parts]
