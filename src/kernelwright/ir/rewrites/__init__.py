"""Graph rewrites: algebra that removes or cheapens work, valid for every finite input."""

from kernelwright.ir.edits import Rewrite
from kernelwright.ir.rewrites import (
    attention,
    cancelled_bias,
    common_subexpressions,
    convolution_forms,
    diagonal,
    fold_affine,
    fold_batch_norm,
    log_softmax,
    matmul_order,
    mean_of_norm,
    merge_pools,
    merge_scalars,
    monotone,
    onednn,
    pool_convolution,
    pool_linear,
    reduce_linear,
    scan_shift,
    simplify,
    split_bias,
    symmetric,
    triangular,
)

_ALL = (
    simplify.REWRITE,
    common_subexpressions.REWRITE,
    reduce_linear.REWRITE,
    pool_linear.REWRITE,
    pool_convolution.REWRITE,
    merge_pools.REWRITE,
    mean_of_norm.REWRITE,
    monotone.REWRITE,
    scan_shift.REWRITE,
    diagonal.REWRITE,
    triangular.REWRITE,
    symmetric.REWRITE,
    matmul_order.REWRITE,
    fold_batch_norm.REWRITE,
    fold_affine.REWRITE,
    merge_scalars.REWRITE,
    split_bias.REWRITE,
    cancelled_bias.REWRITE,
    log_softmax.REWRITE,
    attention.REWRITE,
    onednn.REWRITE,
    convolution_forms.PRODUCT,
    convolution_forms.UNTRANSPOSED,
    convolution_forms.CHANNELS_LAST,
)

REWRITES: dict[str, Rewrite] = {rewrite.name: rewrite for rewrite in _ALL}
"""Every rewrite by the name under which skills ask for it."""
