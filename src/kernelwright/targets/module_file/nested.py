"""A candidate's program as a function in another file: several kernels in one."""

import ast
from collections.abc import Mapping, Sequence

from kernelwright.core.errors import LoweringError
from kernelwright.core.printing import unparse

_RUN = '''
def {name}(*tensors):
    """Call the kernel of a block: the tensors of a call, then the block's weights."""
    for holder, leaf, position in {name}_slots:
        holder[leaf] = tensors[position]
    found = {name}_module.forward(*tensors[:{n_inputs}])
    return found[0] if isinstance(found, tuple) and len(found) == 1 else found
'''
_MADE = """
def {name}_made():
{body}
    module = ModelNew().train({is_training})
    slots = []
    for name, position in {positions!r}:
        *path, leaf = name.split(".")
        part = module
        for step in path:
            part = part._modules[step]
        slots.append((part._parameters if leaf in part._parameters else part._buffers, leaf, position))
        slots[-1][0][leaf] = None
    return module, slots


{name}_module, {name}_slots = {name}_made()
"""


def nested(
    program: str, name: str, *, n_inputs: int, positions: Sequence[tuple[str, int]], is_training: bool
) -> str:
    """Return the text of a function that runs a program's ``ModelNew``.

    Args:
        program: a candidate's program.
        name: of the function.
        n_inputs: so many of its arguments are the tensors of a call.
        positions: state-dict name and argument of each weight.
        is_training: mode of the module.

    Raises:
        LoweringError: the program does what only a file may do at its top level.
    """
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal) or (
            isinstance(node, ast.ImportFrom)
            and (node.module == "__future__" or any(alias.name == "*" for alias in node.names))
        ):
            raise LoweringError(f"line {node.lineno} of a block's kernel cannot stand in a function")
    made = _MADE.format(name=name, body=_indented(tree), positions=list(positions), is_training=is_training)
    return made.strip() + "\n\n" + _RUN.format(name=name, n_inputs=n_inputs).rstrip()


def _indented(tree: ast.Module) -> str:
    """Return the statements as a function's body; texts of several lines keep theirs."""
    function = ast.parse("def f():\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = tree.body
    return "\n".join(unparse(ast.fix_missing_locations(function)).splitlines()[1:])


def without(program: str, names: Mapping[str, str], dropped: Sequence[str]) -> str:
    """Return a program without some assignments at its top level, and with some texts replaced."""
    tree = ast.parse(program)
    tree.body = [statement for statement in tree.body if not _assigns(statement, dropped)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
            node.value = names[node.value]
        elif isinstance(node, ast.Attribute) and node.attr in names:
            node.attr = names[node.attr]
    return unparse(tree)


def _assigns(statement: ast.stmt, names: Sequence[str]) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id in names for target in targets)
