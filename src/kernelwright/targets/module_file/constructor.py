"""The reference's own constructor, kept so that weights are created alike; without its forward."""

import ast
import copy
from collections.abc import Iterable

from kernelwright.core.errors import LoweringError
from kernelwright.core.printing import unparse

NEW_NAME = "ModelNew"


def constructor_source(source: str) -> tuple[str, ast.ClassDef]:
    """Return (everything the class needs, the class renamed ``ModelNew`` and without ``forward``).

    The first part has the imports, helper classes, functions and globals that the constructor and the default
    values of forward use, directly or not. Raises LoweringError when the source has no plain ``class Model``.
    """
    tree = ast.parse(source)
    model = next((s for s in tree.body if isinstance(s, ast.ClassDef) and s.name == "Model"), None)
    if model is None:
        raise LoweringError("the task's source defines no `class Model` at top level")
    model = _without_forward(copy.deepcopy(model))
    kept = _definitions_used(tree.body, _names(model) | _names_of_defaults(forward_arguments(source)))
    renamed = [_Rename().visit(copy.deepcopy(statement)) for statement in kept]
    return "\n\n".join(unparse(s) for s in renamed), _Rename().visit(model)


def forward_arguments(source: str) -> ast.arguments | None:
    """Return the arguments of ``Model.forward``; None where the class inherits it."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ClassDef) and statement.name == "Model":
            for item in statement.body:
                if isinstance(item, ast.FunctionDef) and item.name == "forward":
                    return item.args
    return None


def names_bound(source: str) -> frozenset[str]:
    """Return the names that a reference's source defines or imports at its top level."""
    imports = [s for s in ast.parse(source).body if isinstance(s, ast.Import | ast.ImportFrom)]
    imported = {(alias.asname or alias.name).partition(".")[0] for s in imports for alias in s.names}
    return frozenset(imported.union(*(_binds(statement) for statement in ast.parse(source).body)))


class _Rename(ast.NodeTransformer):
    """``Model`` becomes ``ModelNew`` wherever it is a name."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == "Model":
            node.id = NEW_NAME
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        if node.name == "Model":
            node.name = NEW_NAME
        return node


def _without_forward(model: ast.ClassDef) -> ast.ClassDef:
    """Drop ``forward`` and the methods that only it used."""
    methods = {item.name: item for item in model.body if isinstance(item, ast.FunctionDef)}
    others = [item for item in model.body if not isinstance(item, ast.FunctionDef)]
    wanted = {n for n in methods if n.startswith("__") and n.endswith("__")}
    pending: list[ast.stmt] = [*others, *(methods[n] for n in wanted)]
    while pending:
        for name in _attributes(pending.pop()):
            if name in methods and name not in wanted and name != "forward":
                wanted.add(name)
                pending.append(methods[name])
    model.body = [item for item in model.body if not isinstance(item, ast.FunctionDef) or item.name in wanted]
    return model


def _names_of_defaults(arguments: ast.arguments | None) -> set[str]:
    """Return the names in the default values of forward, which stays declared as it was."""
    defaults = [] if arguments is None else [*arguments.defaults, *filter(None, arguments.kw_defaults)]
    return set[str]().union(*map(_names, defaults))


def _definitions_used(body: Iterable[ast.stmt], needed: set[str]) -> list[ast.stmt]:
    """Return the top-level statements that the class needs for these names, in their order."""
    statements = [s for s in body if not (isinstance(s, ast.ClassDef) and s.name == "Model")]
    wanted = set[int]()
    grew = True
    while grew:
        grew = False
        for position, statement in enumerate(statements):
            if position in wanted or isinstance(statement, ast.Import | ast.ImportFrom | ast.Expr):
                continue
            if _binds(statement) & needed:
                wanted.add(position)
                needed |= _names(statement)
                grew = True
    return [s for i, s in enumerate(statements) if i in wanted or isinstance(s, ast.Import | ast.ImportFrom)]


def _binds(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return {statement.name}
    if isinstance(statement, ast.If | ast.Try | ast.With | ast.For):
        if isinstance(statement, ast.If) and "__name__" in _names(statement.test):
            return set()
        return set().union(*(_binds(s) for s in ast.iter_child_nodes(statement) if isinstance(s, ast.stmt)))
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _attributes(node: ast.AST) -> set[str]:
    return {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
