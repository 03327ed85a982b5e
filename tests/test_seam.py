"""Only targets know which device or language they are: nobody else compares such names."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src" / "kernelwright"
NAMES = frozenset(
    {"cpu", "cuda", "hip", "cpp", "triton", "cpu/cpp", "cuda/triton", "hip/triton", "cuda/cuda", "hip/hip"}
)
PREFIXES = ("sm_", "gfx", "cpu/", "cuda/", "hip/", "torch.cuda", "cuda:")
DATA = ("tasks/suite", "corpus/cheats", "corpus/hostile", "corpus/tasks")
HOMES = ("targets",)
"""Packages that are the seam."""


def is_name(node: ast.expr) -> bool:
    """True for a literal that is the name of a device, a language or a target."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (node.value in NAMES or node.value.startswith(PREFIXES))
    )


def decisions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of every place where such a name decides something."""
    for node in ast.walk(tree):
        found: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            for part in (node.left, *node.comparators):
                found += part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
        elif isinstance(node, ast.Dict):
            found += [key for key in node.keys if key is not None]
        elif isinstance(node, ast.MatchValue):
            found.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("startswith", "endswith", "removeprefix", "get"):
                found += [
                    part
                    for argument in node.args[:1]
                    for part in (argument.elts if isinstance(argument, ast.Tuple) else [argument])
                ]
        elif isinstance(node, ast.Subscript):
            found.append(node.slice)
        elif isinstance(node, ast.comprehension):
            found += node.iter.elts if isinstance(node.iter, ast.Tuple | ast.List | ast.Set) else []
        yield from ((part.lineno, ast.unparse(part)) for part in found if is_name(part))


def offenders(source: str) -> list[str]:
    return [f"line {line}: {text}" for line, text in decisions(ast.parse(source))]


def files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        is_data = parts[:2] in (
            ("tasks", "suite"),
            ("corpus", "cheats"),
            ("corpus", "hostile"),
            ("corpus", "tasks"),
        )
        if parts[0] not in HOMES and not is_data:
            yield path


def test_nothing_but_targets_decides_by_the_name_of_a_device_or_a_language() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in files()
        if (lines := offenders(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_no_language_reads_another_one_s_folder() -> None:
    """GPUs share ``gpu/`` and the loop IR is for all: a printer needs nothing of another language's."""
    found = []
    for folder, others in (("triton", ("cpp",)), ("cpp", ("triton", "cuda", "hip", "gpu"))):
        for path in sorted((ROOT / "targets" / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            found += [f"{path.name}: {other}" for other in others if f"kernelwright.targets.{other}" in text]
    assert found == []


KNOWN_BAD = (
    'x == "cpu"',
    'target.device != "cuda"',
    'language in ("cpp", "triton")',
    'x not in {"hip"}',
    '{"cuda": 1, "hip": 2}',
    'match kind:\n    case "cuda":\n        pass',
    'name.startswith("sm_")',
    'text.startswith(("cpu/", "x"))',
    'TABLE["triton"]',
    'TABLE.get("cuda", 1)',
    '[f(kind) for kind in ("cuda", "hip")]',
    'arch == "gfx942"',
)
KNOWN_GOOD = ('kind = "cpu"', 'f(device="cuda")', 'x == "cpus"', '"machine.cpu" in facts', "x == name")


def test_the_guard_finds_every_form_of_such_a_decision_and_nothing_else() -> None:
    assert [text for text in KNOWN_BAD if not offenders(text)] == []
    assert [text for text in KNOWN_GOOD if offenders(text)] == []
