"""Is a source the reference under another name, or does it keep the reference as a way out?"""

import ast
import copy
from collections.abc import Iterator

from kernelwright.targets.module_file.constructor import NEW_NAME

_INPUTS = ("get_inputs", "get_init_inputs")
_PLUMBING = frozenset(
    {
        *("super", "len", "range", "print", "int", "float", "bool", "str", "tuple", "list", "isinstance"),
        *("getattr", "size", "dim", "numel", "contiguous", "view", "reshape", "to", "type", "stride"),
        *("data_ptr", "empty", "empty_like", "zeros", "new_empty", "detach", "item", "tensor"),
        *("RuntimeError", "ValueError"),
    }
)
"""Calls that any kernel's wrapper makes; sharing one with the reference says nothing."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_reference(tree: ast.Module, reference: str) -> bool:
    """Tell whether the module's ModelNew is the reference's Model.

    Names ``Model`` and ``ModelNew``, docstrings, annotations, the input generators and definitions that
    only one side has are not looked at; ``ModelNew = Model`` and an empty subclass count as the same.
    """
    original = _definitions(ast.parse(reference))
    answer = _definitions(tree)
    model = original.get(NEW_NAME)
    if model is None:
        return False
    shared = (original.keys() & answer.keys()) - {NEW_NAME}
    if any(original[name] != answer[name] for name in shared):
        return False
    return answer.get(NEW_NAME) == model or _only_renames(tree, original)


def hides_reference(tree: ast.Module, reference: str) -> str | None:
    """Return one line when a ``try`` has the reference's operators as its way out, None when none has."""
    operators = _calls(_model_of(ast.parse(reference))) - _PLUMBING
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, _Function)}
    for function in functions.values():
        for line, way_out in _ways_out(function):
            shared = sorted(_reached(way_out, functions) & operators)
            if shared:
                return f"line {line}: when the kernel fails, the reference's own {', '.join(shared)} runs"
    return None


def _definitions(tree: ast.Module) -> dict[str, str]:
    """Return top-level classes and functions by name, as comparable text."""
    tree = _Plain().visit(copy.deepcopy(tree))
    return {
        node.name: ast.dump(node)
        for node in tree.body
        if isinstance(node, ast.ClassDef | _Function) and node.name not in _INPUTS
    }


class _Plain(ast.NodeTransformer):
    """Renames Model, drops docstrings and annotations."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = NEW_NAME if node.id == "Model" else node.id
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.name = NEW_NAME if node.name == "Model" else node.name
        _drop_docstring(node)
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        _drop_docstring(node)
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node


def _drop_docstring(node: ast.ClassDef | ast.FunctionDef) -> None:
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1:
        node.body = node.body[1:]


def _only_renames(tree: ast.Module, original: dict[str, str]) -> bool:
    """Tell whether the file holds the reference's Model and only gives it another name."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    model = classes.get("Model")
    if model is None or ast.dump(_Plain().visit(copy.deepcopy(model))) != original[NEW_NAME]:
        return False
    new = classes.get(NEW_NAME)
    if new is None:
        return True
    has_forward = any(isinstance(item, _Function) and item.name == "forward" for item in new.body)
    return not has_forward and any(isinstance(b, ast.Name) and b.id == "Model" for b in new.bases)


def _model_of(tree: ast.Module) -> ast.AST:
    return next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), tree)


def _calls(node: ast.AST) -> set[str]:
    """Return the last names of everything called, ``@`` as ``matmul``."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            function = inner.func
            if isinstance(function, ast.Attribute):
                found.add(function.attr)
            elif isinstance(function, ast.Name):
                found.add(function.id)
        elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.MatMult):
            found.add("matmul")
    return found


def _reached(way_out: list[ast.stmt], functions: dict[str, _Function]) -> set[str]:
    """Return what the statements call, directly or through functions and methods of the file."""
    found: set[str] = set()
    pending = [name for statement in way_out for name in _calls(statement)]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        if name in functions:
            pending.extend(_calls(functions[name]))
    return found


def _ways_out(function: _Function) -> Iterator[tuple[int, list[ast.stmt]]]:
    """Yield line and statements that run where a ``try`` or ``suppress`` swallows a failure."""
    for body in _bodies(function):
        for position, statement in enumerate(body):
            if isinstance(statement, ast.Try):
                after = body[position + 1 :] if _returns(statement.body) else []
                for handler in statement.handlers:
                    is_swallowed = not _leaves(handler.body)
                    yield handler.lineno, [*handler.body, *(after if is_swallowed else [])]
            elif isinstance(statement, ast.With) and _suppresses(statement) and _returns(statement.body):
                yield statement.lineno, body[position + 1 :]


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for inner in ast.walk(node):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(inner, field, None)
            if isinstance(statements, list):
                yield statements


def _returns(body: list[ast.stmt]) -> bool:
    return any(isinstance(inner, ast.Return) for statement in body for inner in ast.walk(statement))


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise | ast.Return)


def _suppresses(statement: ast.With) -> bool:
    return any("suppress" in _calls(item.context_expr) for item in statement.items)
