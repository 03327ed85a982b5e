"""Graph rewrites: algebra that removes or cheapens work, valid for every finite input."""

from kernelwright.kernels.lowering import Rewrite
from kernelwright.kernels.rewrites import (
    common_subexpressions,
    diagonal,
    matmul_order,
    merge_pools,
    monotone,
    onednn,
    pool_convolution,
    pool_linear,
    reduce_linear,
    simplify,
    symmetric,
    triangular,
)

_MODULES = (
    simplify, common_subexpressions, reduce_linear, pool_linear, pool_convolution, merge_pools, monotone,
    diagonal, triangular, symmetric, matmul_order, onednn,
)  # fmt: skip

REWRITES: dict[str, Rewrite] = {module.REWRITE.name: module.REWRITE for module in _MODULES}
"""Every rewrite by the name under which skills ask for it."""
