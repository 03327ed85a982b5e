"""A constant that a normalisation subtracts again need not be added.

The bias of a convolution before an instance norm, and what is added before a softmax that is the same
along the softmax's dim.
"""

from typing import Any

from torch import fx

from kernelwright.ir.rewrites.affine import read_step
from kernelwright.ir.rewrites.cost import bytes_ms, node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import (
    args_of,
    aten,
    first_result,
    is_call,
    is_float,
    numel,
    scalar_value,
    shape,
    used_once,
)


def _propose(node: fx.Node) -> Proposal | None:
    return _before_softmax(node) or _before_instance_norm(node)


def _before_softmax(node: fx.Node) -> Proposal | None:
    if not is_call(node, aten._softmax.default, aten._log_softmax.default):
        return None
    step = read_step(args_of(node)[0])
    if step is None or step.op not in (aten.add.Tensor, aten.sub.Tensor) or not used_once(args_of(node)[0]):
        return None
    rank = len(shape(node))
    dim = args_of(node)[1] % rank - (rank - len(shape(step.other)) if is_float(step.other) else rank)
    constant = scalar_value(step.other) is not None or (
        is_float(step.other) and (dim < 0 or shape(step.other)[dim] == 1)
    )
    if not constant:
        return None
    why = f"{node.name} is the same whatever is added along its dim"
    return Proposal(
        why,
        lambda edit: edit.call(node.target, step.source, *args_of(node)[1:]),
        node_ms(step.source.next),
    )


def _before_instance_norm(node: fx.Node) -> Proposal | None:
    """Drop it at a convolution whose every output channel of every sample is normalised by itself."""
    if not is_call(node, aten.convolution.default) or args_of(node)[2] is None or not used_once(node):
        return None
    reader: Any = next(iter(node.users))
    while _keeps_channels_apart(reader, node) and used_once(reader):
        reader = next(iter(reader.users))
    if not _normalises_each_channel(reader, node):
        return None

    def build(edit: Editor) -> fx.Node:
        return edit.call(aten.convolution.default, *args_of(node)[:2], None, *args_of(node)[3:])

    why = f"{reader.name} subtracts each channel's mean, and the bias of {node.name} with it"
    return Proposal(why, build, 0.1 * bytes_ms(4 * numel(node)))


def _keeps_channels_apart(reader: Any, conv: fx.Node) -> bool:
    """A view to one channel per sample and channel, or a scaling that is constant in space."""
    if is_call(reader, aten.view.default):
        return shape(reader)[:2] == (1, shape(conv)[0] * shape(conv)[1])
    step = read_step(reader)
    if step is None or step.op not in (aten.mul.Tensor, aten.div.Tensor):
        return False
    if not is_float(step.other):
        return scalar_value(step.other) is not None
    return all(n == 1 for n in shape(step.other)[-(len(shape(conv)) - 2) :])


def _normalises_each_channel(reader: Any, conv: fx.Node) -> bool:
    if is_call(reader, aten._native_batch_norm_legit.no_stats):
        values = next((u for u in reader.users if first_result(u, reader.target) is reader), None)
        own = shape(args_of(reader)[0])[:2] == (1, shape(conv)[0] * shape(conv)[1])
        return own and values is not None and len(reader.users) == 1
    if is_call(reader, aten.native_group_norm.default):
        return bool(args_of(reader)[6] == shape(conv)[1]) and len(reader.users) == 1
    return False


REWRITE = PatternRewrite("cancelled_bias", _propose)
