"""Graph rewrites: algebra that removes or cheapens work, valid for every finite input."""

from kernelwright.kernels.lowering import Rewrite
from kernelwright.kernels.rewrites import reduce_linear

_MODULES = (reduce_linear,)

REWRITES: dict[str, Rewrite] = {module.REWRITE.name: module.REWRITE for module in _MODULES}
"""Every rewrite by the name under which skills ask for it."""
