"""Programs for GPUs as they are read where only models write: cut into kernels as for Triton."""

from dataclasses import replace

from kernelwright.targets.triton.candidate import render_triton_candidate as render_library_candidate
from kernelwright.targets.triton.lowering import LOWERING as TRITON

__all__ = ["LOWERING", "render_library_candidate"]

LOWERING = replace(TRITON, edits_for=lambda machine: {}, repairs=())
