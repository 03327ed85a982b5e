"""Printed regions as a file of their own, for tests that need no whole candidate."""

from kernelwright.ir.program import Region
from kernelwright.targets.triton.prelude import prelude_for
from kernelwright.targets.triton.printer import IMPORTS, print_kernel


def print_module(regions: tuple[Region, ...]) -> str:
    """Return a Python file with one launching function per region, and what they need."""
    kernels = "\n\n".join(print_kernel(region).text for region in regions)
    imports = f"import torch\n{IMPORTS}" if "torch.empty(" in kernels else IMPORTS
    parts = [imports, prelude_for(kernels).rstrip(), kernels]
    return "\n\n\n".join(part for part in parts if part)
