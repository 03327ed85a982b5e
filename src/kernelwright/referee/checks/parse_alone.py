"""Parses a source in a small process of its own: ``python -I -S parse_alone.py MEMORY_BYTES CPU_SECONDS``.

Reads the source from stdin and writes one line: what is wrong, or nothing. Uses the standard library only.
"""

import ast
import resource
import sys


def main() -> None:
    """Take limits, read, parse, write."""
    memory, seconds = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    source = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    sys.stdout.write(_problem(source) or "")


def _problem(source: str) -> str | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        return ascii(f"not Python: {where}{getattr(error, 'msg', None) or error}")[1:-1]
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


if __name__ == "__main__":
    main()
