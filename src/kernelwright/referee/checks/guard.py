"""The first look at a candidate: is it Python, and does it define ``ModelNew``?

Nothing here decides by pattern whether a kernel is honest; the later stages measure that.
"""

import ast


def find_syntax_problem(source: str) -> str | None:
    """Return one line saying why the source cannot be a candidate, None when it can."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        return f"not Python: {where}{getattr(error, 'msg', None) or error}"
    except (RecursionError, MemoryError):
        return "not Python: nested too deeply to parse"
    if not any("ModelNew" in _bound_names(statement) for statement in tree.body):
        return "defines no `ModelNew` at module level"
    return None


def _bound_names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names}
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
