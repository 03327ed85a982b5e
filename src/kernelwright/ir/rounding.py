"""Which products round on their own: eager rounds every one, and a fused multiply-add rounds the sum alone.

Where a sum may cancel, the two differ wholly: ``a * a - b * b`` at ``a == b`` is 0 in eager, and a fused
difference is the rounding error of one product, of either sign. A root, a logarithm, a quotient or a
comparison then makes NaN, or another value altogether, of it.
"""

from kernelwright.ir.dag import COMPARED, STEPS, Dag, DagNode

JUMPS = COMPARED | STEPS | {"sign"}
POLES = frozenset(
    {"sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "log1p", "asin", "acos", "pow", "tan"}
)
POSITIVE = frozenset({"exp", "exp2", "sigmoid", "softplus", "cosh"})
"""Far from every pole and jump that matters, whatever they are given."""
PRODUCTS = frozenset({"mul", "square"})
FLOATS = ("float32", "float64")


def rounded_products(dag: Dag) -> frozenset[int]:
    """Return the products that are added or subtracted below a function with a pole or a jump."""
    stages = {a.stage.name: a.node for group in dag.groups for a in group.actions if a.kind != "store"}
    pending = [n for node in dag.nodes for n in _delicate(node)]
    pending += [a.node for g in dag.groups for a in g.reduces if str(a.stage.combine).startswith("arg")]
    seen: set[int] = set()
    found: set[int] = set()
    while pending:
        number = pending.pop()
        node = dag.nodes[number]
        if number in seen or (node.kind == "op" and node.name in POSITIVE):
            continue
        seen.add(number)
        pending += [stages[node.name]] if node.kind in ("reduced", "scanned") else node.args
        if node.kind == "op" and node.name in ("add", "sub"):
            found |= {a for a in (_signless(dag, arg) for arg in node.args) if _is_product(dag.nodes[a])}
    return frozenset(found)


def _delicate(node: DagNode) -> tuple[int, ...]:
    """Return those arguments of a node that it is sensitive to at a point."""
    if node.kind != "op":
        return ()
    if node.name == "div":
        return node.args[1:]
    is_jump = node.name in JUMPS or (node.name == "cast" and node.dtype not in FLOATS)
    return node.args if is_jump or node.name in POLES else ()


def _signless(dag: Dag, number: int) -> int:
    while dag.nodes[number].kind == "op" and dag.nodes[number].name == "neg":
        number = dag.nodes[number].args[0]
    return number


def _is_product(node: DagNode) -> bool:
    return node.kind == "op" and node.name in PRODUCTS and node.dtype in FLOATS
