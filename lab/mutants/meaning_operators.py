"""Mutation operators on the meaning of a reference: what a wrong reading of it would compute.

They work on the syntax tree of ``Model.forward`` and give the source of a ``ModelNew``.
"""

import ast
import copy
from collections.abc import Callable, Iterator

from lab.mutants.edits import Operator

_UNARY = {"relu", "sigmoid", "tanh", "gelu", "silu", "mish", "hardswish", "elu", "leaky_relu", "hardtanh",
          "clamp", "tril", "dropout", "softmax", "log_softmax", "exp", "rsqrt", "sqrt", "flip"}  # fmt: skip
_OTHER = {"relu": "leaky_relu", "gelu": "silu", "silu": "gelu", "mish": "silu", "hardswish": "silu",
          "softmax": "log_softmax", "tril": "triu", "sum": "mean", "mean": "sum", "max": "min",
          "argmax": "argmin", "cumsum": "cumprod", "cumprod": "cumsum"}  # fmt: skip
_FUNCTIONAL = {"leaky_relu", "gelu", "silu"}


def _mutants(source: str, change: Callable[[ast.AST], Iterator[ast.AST | None]]) -> Iterator[str]:
    """Yield one source for every replacement that ``change`` offers for a node of ``forward``."""
    tree = ast.parse(source)
    forward = _forward(tree)
    for position, node in enumerate(ast.walk(forward)):
        for new in change(node):
            if new is not None:
                yield _with(source, position, new)


def _with(source: str, position: int, new: ast.AST) -> str:
    tree = ast.parse(source)
    forward = _forward(tree)
    old = list(ast.walk(forward))[position]
    _Replace(old, new).visit(forward)
    return as_candidate(ast.unparse(ast.fix_missing_locations(tree)))


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        """Put the new node where the old one is."""
        return self._new if node is self._old else self.generic_visit(node)


def _forward(tree: ast.Module) -> ast.FunctionDef:
    (model,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model")
    return next(n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "forward")


def as_candidate(source: str) -> str:
    """Return a reference's source as a candidate: ``Model`` becomes ``ModelNew``."""
    needed = "import torch.nn.functional as F\n" if "import torch.nn.functional as F" not in source else ""
    return needed + source.replace("class Model(", "class ModelNew(")


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _subject(node: ast.Call) -> ast.expr | None:
    """Return what an operator is applied to: its first argument, or the tensor whose method it is."""
    func = node.func
    if isinstance(func, ast.Attribute) and not isinstance(func.value, ast.Name):
        return func.value
    return node.args[0] if node.args else None


def operation_dropped(source: str) -> Iterator[str]:
    """An activation, clip or the like is left out."""
    yield from _mutants(
        source,
        lambda node: iter([_subject(node)] if isinstance(node, ast.Call) and _called(node) in _UNARY else []),
    )


def operation_mistaken(source: str) -> Iterator[str]:
    """Another function of the same kind is called."""

    def change(node: ast.AST) -> Iterator[ast.AST | None]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _called(node) in _OTHER:
            new = copy.deepcopy(node)
            assert isinstance(new.func, ast.Attribute)
            new.func.attr = _OTHER[_called(node)]
            if new.func.attr in _FUNCTIONAL and isinstance(new.func.value, ast.Name):
                new.func.value = ast.Name("F", ast.Load())
            yield new

    yield from _mutants(source, change)


def term_dropped(source: str) -> Iterator[str]:
    """One side of a sum, difference, product or quotient is left out."""

    def change(node: ast.AST) -> Iterator[ast.AST | None]:
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            yield node.left
            if not isinstance(node.right, ast.Constant):
                yield node.right

    yield from _mutants(source, change)


def wrong_axis(source: str) -> Iterator[str]:
    """A reduction, scan or softmax runs along another axis."""

    def change(node: ast.AST) -> Iterator[ast.AST | None]:
        if not isinstance(node, ast.keyword) or node.arg not in ("dim", "dims"):
            return
        for other in (0, -2):
            if ast.unparse(node.value) not in (str(other), f"[{other}]"):
                value: ast.expr = ast.UnaryOp(ast.USub(), ast.Constant(2)) if other < 0 else ast.Constant(0)
                is_list = isinstance(node.value, ast.List | ast.Tuple)
                yield ast.keyword(node.arg, ast.List([value], ast.Load()) if is_list else value)

    yield from _mutants(source, change)


def flag_flipped(source: str) -> Iterator[str]:
    """A flag that is given is given the other way round."""

    def change(node: ast.AST) -> Iterator[ast.AST | None]:
        value = node.value if isinstance(node, ast.keyword) else None
        is_flag = isinstance(value, ast.Constant) and isinstance(value.value, bool)
        if is_flag and isinstance(node, ast.keyword) and isinstance(value, ast.Constant):
            yield ast.keyword(node.arg, ast.Constant(not value.value))

    yield from _mutants(source, change)


def transposed(source: str) -> Iterator[str]:
    """A matrix product has its second factor transposed, or not."""

    def change(node: ast.AST) -> Iterator[ast.AST | None]:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            turned = ast.parse(f"({ast.unparse(node.right)}).transpose(-2, -1)", mode="eval").body
            yield ast.BinOp(node.left, ast.MatMult(), turned)
        elif _called(node) in ("transpose", "unsqueeze") and isinstance(node, ast.Call):
            yield _subject(node) if not isinstance(node.func, ast.Attribute) else node.func.value

    yield from _mutants(source, change)


_LAYERS = {
    "LayerNorm": "F.layer_norm({x}, self.{n}.normalized_shape)",
    "GroupNorm": "F.group_norm({x}, self.{n}.num_groups)",
    "Linear": "F.linear({x}, self.{n}.weight)",
    "BatchNorm1d": "F.batch_norm({x}, None, None, self.{n}.weight, self.{n}.bias, True)",
    "BatchNorm2d": "F.batch_norm({x}, None, None, self.{n}.weight, self.{n}.bias, True)",
    "Conv2d": "F.conv2d({x}, self.{n}.weight, None, self.{n}.stride, self.{n}.padding, 1, self.{n}.groups)",
}


def _layers(source: str) -> dict[str, str]:
    """Return attribute -> class of what the constructor makes with ``nn.``."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target = node.targets[0]
            if isinstance(target, ast.Attribute) and ast.unparse(node.value.func).startswith("nn."):
                found[target.attr] = _called(node.value)
    return found


def weights_assumed(source: str) -> Iterator[str]:
    """A layer's weights or statistics are taken to be as made: scale 1, bias 0, nothing to update."""
    layers = _layers(source)

    def change(node: ast.AST) -> Iterator[ast.AST | None]:
        name = _called(node)
        if isinstance(node, ast.Call) and name in layers and layers[name] in _LAYERS and node.args:
            text = _LAYERS[layers[name]].format(x=ast.unparse(node.args[0]), n=name)
            yield ast.parse(text, mode="eval").body

    yield from _mutants(source, change)


def settled_statistics(source: str) -> Iterator[str]:
    """Batch normalisation takes the running statistics where the batch's count, or the other way round."""
    layers = _layers(source)

    def change(node: ast.AST) -> Iterator[ast.AST | None]:
        name = _called(node)
        if isinstance(node, ast.Call) and layers.get(name, "").startswith("BatchNorm"):
            of = f"self.{name}"
            yield ast.parse(
                f"F.batch_norm({ast.unparse(node.args[0])}, {of}.running_mean, {of}.running_var, "
                f"{of}.weight, {of}.bias, not self.training)",
                mode="eval",
            ).body

    yield from _mutants(source, change)


def _argument_changed(source: str, text: str) -> Iterator[str]:
    """Begin ``forward`` with one assignment, for each of its arguments."""
    for argument in _forward(ast.parse(source)).args.args[1:]:
        tree = ast.parse(source)
        _forward(tree).body[:0] = ast.parse(text.format(x=argument.arg)).body
        yield as_candidate(ast.unparse(tree))


def input_made_ones(source: str) -> Iterator[str]:
    """An input is not looked at: ones stand for it."""
    yield from _argument_changed(source, "{x} = torch.ones_like({x})")


def input_made_positive(source: str) -> Iterator[str]:
    """An input is taken to be positive, as it mostly is."""
    yield from _argument_changed(source, "{x} = {x}.abs()")


def input_halved(source: str) -> Iterator[str]:
    """An input goes through bfloat16."""
    yield from _argument_changed(source, "{x} = {x}.bfloat16().float() if {x}.is_floating_point() else {x}")


def input_clipped(source: str) -> Iterator[str]:
    """An input is taken to lie within what normal numbers do."""
    yield from _argument_changed(source, "{x} = {x}.clamp(-20, 20) if {x}.is_floating_point() else {x}")


def input_written(source: str) -> Iterator[str]:
    """The work is done in the input's own memory."""
    yield from _argument_changed(source, "{x} = {x}.mul_(1.5) / 1.5 if {x}.is_floating_point() else {x}")


def subnormals_flushed(source: str) -> Iterator[str]:
    """Subnormal inputs count as zero."""
    yield from _argument_changed(
        source,
        "{x} = torch.where({x}.abs() < 1.2e-38, 0.0, {x}) if {x}.is_floating_point() else {x}",
    )


def nan_made_zero(source: str) -> Iterator[str]:
    """NaN among the inputs counts as zero."""
    yield from _argument_changed(
        source, "{x} = torch.where({x} == {x}, {x}, 0.0) if {x}.is_floating_point() else {x}"
    )


def last_row_zero(source: str) -> Iterator[str]:
    """The last row of an input is taken to be zero."""
    yield from _argument_changed(source, "{x} = {x}.clone()\n{x}[-1:] = 0")


def contiguous_memory_read(source: str) -> Iterator[str]:
    """An input's memory is read in order, whatever its strides are."""
    yield from _argument_changed(source, "{x} = torch.as_strided({x}, ({x}.numel(),), (1,)).view({x}.shape)")


def argmax_of_the_last(source: str) -> Iterator[str]:
    """Of equal largest elements the last one's position is given."""

    def change(node: ast.AST) -> Iterator[ast.AST | None]:
        if isinstance(node, ast.Call) and _called(node) == "argmax":
            x = ast.unparse(node.args[0])
            text = f"{x}.shape[-1] - 1 - torch.argmax({x}.flip(-1), dim=-1)"
            yield ast.parse(text, mode="eval").body

    yield from _mutants(source, change)


def narrow_positions(source: str) -> Iterator[str]:
    """Positions are returned as 32-bit integers."""

    def change(node: ast.AST) -> Iterator[ast.AST | None]:
        if isinstance(node, ast.Call) and _called(node) == "argmax":
            yield ast.parse(f"{ast.unparse(node)}.to(torch.int32)", mode="eval").body

    yield from _mutants(source, change)


MEANING: dict[str, Operator] = {
    f.__name__: f
    for f in (
        operation_dropped, operation_mistaken, term_dropped, wrong_axis, flag_flipped, transposed,
        weights_assumed, settled_statistics, input_made_ones, input_made_positive, input_halved,
        input_clipped, input_written, subnormals_flushed, nan_made_zero, last_row_zero,
        contiguous_memory_read, argmax_of_the_last, narrow_positions,
    )
}  # fmt: skip
