"""The arrows of docs/architecture.md, enforced: imports run downward only and never in a circle."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src" / "kernelwright"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("core",),
    ("settings",),
    ("machine", "tasks", "store", "skills"),
    ("ir", "memory", "formats"),
    ("targets",),
    ("agents", "report"),
    ("referee",),
    ("runs", "tuning"),
    ("methods",),
    ("remote", "corpus", "delivery"),
    ("warm", "whole"),
    ("api",),
    ("mcp", "dashboard"),
    ("cli", "testing"),
)
"""From the ground up: a package may import the packages of lower layers, and none beside or above it."""
NEVER = {
    "report": ("kernelwright.agents", "kernelwright.ir", "kernelwright.memory"),
    "runs": ("kernelwright.referee", "kernelwright.agents.expert", "kernelwright.agents.teams"),
    "remote": ("kernelwright.referee", "kernelwright.methods"),
    "skills": ("kernelwright.settings",),
}
"""Lower packages that one keeps clear of all the same; a module is named by its beginning."""
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[:2] == ("tasks", "suite") and parts[-1] != "__init__":
            continue  # task files are data
        if parts[0] == "corpus" and len(parts) == 3 and parts[-1] != "__init__":
            continue  # specimens are data
        name = ".".join(("kernelwright", *(p for p in parts if p != "__init__")))
        found[name] = path
    return found


@cache
def imports(name: str, path: Path) -> set[str]:
    """Our modules that this one imports at top level or lazily."""
    known = modules()
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name.startswith("kernelwright")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernelwright"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else str(node.module))
    return found - {name}


def package(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_imports_run_downward() -> None:
    offenders = []
    for name, path in modules().items():
        own = package(name)
        if own in ("", "__main__"):
            continue
        assert own in LEVEL, f"{own} has no place in the house"
        for target in imports(name, path):
            theirs = package(target)
            is_below = theirs in ("", own) or LEVEL.get(theirs, len(LAYERS)) < LEVEL[own]
            if not is_below or target.startswith(NEVER.get(own, "-")):
                offenders.append(f"{name} imports {target}")
    assert offenders == []


def test_the_worker_holds_nothing_but_core() -> None:
    for name, path in modules().items():
        if name.startswith("kernelwright.referee.worker"):
            others = {t for t in imports(name, path) if not t.startswith("kernelwright.referee.worker")}
            assert {package(t) for t in others} <= {"core"}, name


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {name: {t for t in imports(name, path) if t in modules()} for name, path in modules().items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name in done:
            return
        for target in graph[name]:
            visit(target, (*trail, name))
        done.add(name)

    for name in graph:
        if name != "kernelwright":
            visit(name, ())


def test_importing_the_package_loads_neither_torch_nor_a_model_sdk() -> None:
    code = "import sys, kernelwright; print(sorted({'torch', 'pydantic_ai', 'openai'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
