"""Edits of how a graph is cut into regions, with the places where each applies."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from torch import fx

from kernelwright.core.errors import LoweringError
from kernelwright.ir.edits import FusionEdit, FusionOptions, Site
from kernelwright.ir.facts import ATTENTIONS, ELEMENT_BYTES, REDUCTIONS, SCANS, WINDOWS
from kernelwright.ir.lower import analyse
from kernelwright.ir.lower.expressions import loads, walk
from kernelwright.ir.lower.fuse import FusionGroup
from kernelwright.ir.lower.plan import Lowered
from kernelwright.ir.lower.products import PRODUCTS
from kernelwright.ir.lower.recurrence import RECURRENCES
from kernelwright.ir.lower.registry import Handler
from kernelwright.ir.lower.translate import operator_name
from kernelwright.ir.lower.values import Inline, Reduce, Scan, Value, domain
from kernelwright.ir.program import TRANSCENDENTALS, Expr, Op
from kernelwright.tasks.capture import Captured

OWN_PRODUCT = "own-product"
"""The edit for targets whose printers have kernels for products (``Lowering.own_products``)."""
OWN_RECURRENCE = "own-recurrence"
"""The edit for those that have kernels for recurrent layers (``Lowering.own_recurrences``)."""
RECURRENCE_ROWS = 4
"""Rows of the batch up to which the library's steps are mostly overhead."""
RECURRENCE_GAINS = {"lstm": (1.7, 1.05), "gru": (5.0, 3.0), "rnn_tanh": (5.0, 3.0), "rnn_relu": (5.0, 3.0)}
"""Operator -> what generated code promises up to so few rows, and with more; measured (docs/space.md) but for
``rnn_relu``, which is taken to be as ``rnn_tanh``."""
FEW_CHANNELS = 4
"""Channels a group up to which libraries have no matrix to multiply, and loops over windows are ahead."""
WINDOWS_GAIN = 1.5
"""What generated code promises there, and where 3 x 3 windows can be transformed. Measured: 1.3 to 5 on
convolutions of few channels in one to three dimensions, 1.2 to 2.0 with transforms (docs/space.md)."""
OTHER_CONVOLUTIONS_GAIN = 1.1
"""What it promises on other convolutions, at which libraries are good."""
FEW_FILTERS = 16
"""Filters up to which loops over dense windows are not far behind a library."""
SLOW_WINDOWS_GAIN = 0.5
"""What generated code promises on dense windows of more filters that have no transforms. Measured: 0.38 to
0.68 (``lab.benchmarks.products``: cases ``strided-*`` and ``narrow-512``, Zen 5)."""
TRANSFORMED_PLANES, TRANSFORMED_WIDTH, TRANSFORMED_PLACES = (8, 256), 12, 192
"""Channels, columns and places of an image for which transforms were faster than the library."""
MIN_BYTES = 1 << 14
"""Edits ignore tensors smaller than this."""
TORCH_IS_GOOD = (
    REDUCTIONS | SCANS | WINDOWS | {"cat", "constant_pad_nd", "gather", "index_select", "embedding"}
)
"""Operators for which torch has a kernel worth trying against a generated one."""


@dataclass
class _Edit:
    """A FusionEdit made of two functions."""

    name: str
    find: Callable[[Captured, FusionOptions, Lowered], Iterable[Site]]
    change: Callable[[FusionOptions, str], FusionOptions]

    def sites(self, captured: Captured, options: FusionOptions) -> tuple[Site, ...]:
        """Return where it applies, largest expected gain first."""
        if not options.enabled:
            return ()
        found = self.find(captured, options, analyse(captured, options))
        return tuple(sorted(found, key=lambda site: -site.gain))

    def apply(self, options: FusionOptions, region: str) -> FusionOptions:
        """Return the changed options; raises LoweringError when nothing would change."""
        changed = self.change(options, region)
        if changed == options:
            raise LoweringError(f"{self.name} is already in force at {region!r}")
        return changed


def own_products(captured: Captured) -> tuple[fx.Node, ...]:
    """Return the products, convolutions and attention that code can be generated for."""
    return _generated(captured, PRODUCTS)


def own_recurrences(captured: Captured) -> tuple[fx.Node, ...]:
    """Return the recurrent layers that code can be generated for."""
    return _generated(captured, RECURRENCES)


def _generated(captured: Captured, handlers: Mapping[str, Handler]) -> tuple[fx.Node, ...]:
    known = [node for node in captured.graph.nodes if operator_name(node) in handlers]
    if not known or captured.family:
        return ()  # tiles have literal sizes
    lowered = analyse(captured, FusionOptions(own=frozenset(node.name for node in known)))
    return tuple(node for node in known if node.name not in lowered.graph.steps)


def channels_added(node: fx.Node) -> int | None:
    """Return the channels that one sum of a grouped convolution adds up; None where it has one group."""
    if operator_name(node) != "convolution.default" or node.args[8] == 1:
        return None
    image, groups = node.all_input_nodes[0], node.args[8]
    return int(image.meta["val"].shape[1]) // int(str(groups))


def has_transforms(node: fx.Node) -> bool:
    """Tell whether a convolution has a 3 x 3 window that moves by one, and channels and places enough.

    Winograd's transforms then need 4 multiplications for a result where a library needs 9.
    """
    if operator_name(node) != "convolution.default" or node.args[8] != 1 or len(node.meta["val"].shape) < 4:
        return False
    image, weight = (n.meta["val"].shape for n in node.all_input_nodes[:2])
    out = node.meta["val"].shape
    moves = [list(node.args[place])[-2:] for place in (3, 5)]  # type: ignore[arg-type]
    is_plain = list(weight[-2:]) == [3, 3] and moves == [[1, 1], [1, 1]]
    planes = int(image[1]) * prod(weight[2:-2])
    is_large = out[-1] >= TRANSFORMED_WIDTH and out[-2] * out[-1] >= TRANSFORMED_PLACES
    low, high = TRANSFORMED_PLANES
    return bool(is_plain and is_large and low <= planes <= high and out[1] >= low)


def is_slow_window(node: fx.Node) -> bool:
    """Tell whether a convolution's windows move by more than one, or along few columns, with many filters."""
    if operator_name(node) != "convolution.default" or node.args[8] != 1 or len(node.meta["val"].shape) < 4:
        return False
    weight, out = node.all_input_nodes[1].meta["val"].shape, node.meta["val"].shape
    moves = list(node.args[3])[-2:]  # type: ignore[arg-type]
    is_hard = moves != [1, 1] or out[-1] < TRANSFORMED_WIDTH
    return bool(is_hard and weight[-2:].numel() > 1 and weight[0] > FEW_FILTERS)


def product_size(node: fx.Node) -> str:
    """Return the shapes that a product multiplies, as ``4x8 by 8x3``; of attention queries by keys."""
    operands = [n.meta["val"].shape for n in node.all_input_nodes if len(n.meta["val"].shape) > 1]
    pair = operands[:2] if _is_attention(node) else operands[-2:]
    return " by ".join("x".join(map(str, shape)) for shape in pair)


def _is_attention(node: fx.Node) -> bool:
    return str(operator_name(node)).split(".")[0] in ATTENTIONS


def _bytes(value: Value) -> int:
    return prod(value.shape) * ELEMENT_BYTES.get(value.dtype, 1)


def _is_node_result(lowered: Lowered, value: Value) -> bool:
    return lowered.graph.values.get(value.node) is value


def _total_bytes(lowered: Lowered) -> int:
    """Return the bytes that regions read and write, each buffer once per region: the base for gains."""
    sizes = {b.name: prod(b.shape) * ELEMENT_BYTES.get(b.dtype, 1) for b in lowered.program.buffers}
    total = 0
    for group in lowered.fusion.groups:
        touched = {load.buffer for load in loads(s.expr for s in group.draft.stages)}
        touched |= {v.name for v in group.values}
        total += sum(sizes.get(name, 0) for name in touched)
    return max(total, 1)


def _gain(lowered: Lowered, saved: int) -> float:
    total = _total_bytes(lowered)
    return total / max(total - saved, total // 4)


def _repeats(lowered: Lowered) -> dict[Value, list[Expr]]:
    found: dict[Value, list[Expr]] = {}
    for group in lowered.fusion.groups:
        for value, expr in group.draft.evaluated.items():
            found.setdefault(value, []).append(expr)
    return found


def _materialise_sites(captured: Captured, options: FusionOptions, lowered: Lowered) -> Iterable[Site]:
    for value, exprs in _repeats(lowered).items():
        apt = isinstance(value, Inline) and not value.is_view and _is_node_result(lowered, value)
        if len(exprs) < 2 or not apt or _bytes(value) < MIN_BYTES or value.node in options.materialise:
            continue
        heavy = sum(isinstance(e, Op) and e.name in TRANSCENDENTALS for e in walk([exprs[0]]))
        buffers = len({load.buffer for load in loads([exprs[0]])})
        again = (len(exprs) - 1) * _bytes(value) * (buffers + heavy)
        once = len(exprs) * _bytes(value)
        if buffers + heavy > 1:
            yield Site(
                value.node,
                f"{len(exprs)} regions compute it, each from {buffers} buffers with {heavy} transcendentals; "
                f"writing {_bytes(value) / 1e6:.2f} MB once replaces about {again / 1e6:.2f} MB of work",
                _gain(lowered, max(again - once, 0)),
            )


def _inline_sites(captured: Captured, options: FusionOptions, lowered: Lowered) -> Iterable[Site]:
    stored = set(lowered.chosen)
    forced = {v for group in lowered.fusion.groups for v in group.values if v.node in options.materialise}
    for value in [*stored, *forced]:
        if not isinstance(value, Inline) or _bytes(value) < MIN_BYTES or value.node in options.inline:
            continue
        readers = [g for g in lowered.fusion.groups if _reads(g, value.name)]
        moved = _bytes(value) * (1 + len(readers))
        yield Site(
            value.node,
            f"written once and read by {len(readers)} regions, {moved / 1e6:.2f} MB that "
            "computing it again would save",
            _gain(lowered, moved // 2),
        )


def _reads(group: FusionGroup, buffer: str) -> bool:
    return any(load.buffer == buffer for load in loads(s.expr for s in group.draft.stages))


def _split_sites(captured: Captured, options: FusionOptions, lowered: Lowered) -> Iterable[Site]:
    for group in lowered.fusion.groups:
        loops = [v for v in group.values if prod(domain(v)) > 1]
        starts = [v for v in loops[1:] if v.node != loops[0].node and v.node not in options.apart]
        for value in starts:
            kind = "reduction" if isinstance(value, Reduce) else "scan" if isinstance(value, Scan) else "map"
            yield Site(
                value.node,
                f"this {kind} over {prod(domain(value))} points shares a region with {len(loops) - 1} other "
                f"stages that keep {prod(a.size for a in group.draft.kept)} points",
            )


def _call_sites(captured: Captured, options: FusionOptions, lowered: Lowered) -> Iterable[Site]:
    nodes = {node.name: node for node in captured.graph.nodes}
    for group in lowered.fusion.groups:
        for name in dict.fromkeys(v.node for v in (*group.values, *group.draft.evaluated)):
            operator = (operator_name(nodes[name]) or "").split(".")[0] if name in nodes else ""
            if operator in TORCH_IS_GOOD:
                points = max(prod(domain(v)) for v in group.values)
                yield Site(
                    name,
                    f"{operator} over {points} points could be torch's kernel, at the price of reading and "
                    "writing its operands apart from their neighbours",
                )


def _product_sites(captured: Captured, options: FusionOptions, lowered: Lowered) -> Iterable[Site]:
    for node in own_products(captured):
        if node.name not in options.own:
            name, channels = str(operator_name(node)).split(".")[0], channels_added(node)
            why = f"{name} of {product_size(node)}: a library call, and its result passes through memory"
            if channels is not None and channels <= FEW_CHANNELS:
                yield Site(node.name, f"{why}; {channels} channels a sum make no matrix", WINDOWS_GAIN)
            elif has_transforms(node):
                yield Site(node.name, f"{why}; transforms need 4 products instead of 9", WINDOWS_GAIN)
            elif is_slow_window(node):
                yield Site(node.name, f"{why}; yet loops over so many windows are slow", SLOW_WINDOWS_GAIN)
            else:  # what the library leaves to gain is measured, not known
                yield Site(node.name, why, 1.0 if channels is None else OTHER_CONVOLUTIONS_GAIN)


def _recurrence_sites(captured: Captured, options: FusionOptions, lowered: Lowered) -> Iterable[Site]:
    for node in own_recurrences(captured):
        if node.name not in options.own:
            name = str(operator_name(node)).split(".")[0]
            _, rows, units = node.all_input_nodes[1].meta["val"].shape
            few, many = RECURRENCE_GAINS[name]
            why = (
                f"{name} of {rows} rows and {units} units: a library call with a small product for every step"
            )
            yield Site(node.name, why, few if rows <= RECURRENCE_ROWS else many)


def _own(options: FusionOptions, node: str) -> FusionOptions:
    return replace(options, own=options.own | {node}, as_calls=options.as_calls - {node})


def _materialise(options: FusionOptions, node: str) -> FusionOptions:
    return replace(options, materialise=options.materialise | {node}, inline=options.inline - {node})


def _inline(options: FusionOptions, node: str) -> FusionOptions:
    return replace(options, inline=options.inline | {node}, materialise=options.materialise - {node})


def _apart(options: FusionOptions, node: str) -> FusionOptions:
    return replace(options, apart=options.apart | {node})


def _as_call(options: FusionOptions, node: str) -> FusionOptions:
    return replace(options, as_calls=options.as_calls | {node})


FUSION_EDITS: dict[str, FusionEdit] = {
    edit.name: edit
    for edit in (
        _Edit("materialise-value", _materialise_sites, _materialise),
        _Edit("inline-producer", _inline_sites, _inline),
        _Edit("split-region", _split_sites, _apart),
        _Edit("keep-call", _call_sites, _as_call),
        _Edit(OWN_PRODUCT, _product_sites, _own),
        _Edit(OWN_RECURRENCE, _recurrence_sites, _own),
    )
}
"""Fusion edits by name: write a shared value once, compute it again, split a region, leave it to torch,
take a product, or a recurrent layer, from the library."""
