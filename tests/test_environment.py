"""The machine is a value: nobody but its probes asks the process what it runs on."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "kernelwright"

ALLOWED = {
    "machine/": "the probes, and what children are given",
    "targets/gpu/peaks.py": "the probe of a GPU",
    "targets/cuda/nvcc/find.py": "a probe: where the compiler is",
    "targets/hip/hipcc/find.py": "a probe: where the compiler is",
    "settings.py": "the user's settings",
    "agents/llm/keys.py": "the keys of models",
    "referee/": "the referee's own processes",
    "targets/cpp/runtime_source.py": "text of delivered files, read where they run",
    "targets/cuda/runtime_source.py": "text of delivered files, read where they run",
    "delivery/runtime/kernel.py": "tells the program that it runs where its libraries are",
    "corpus/cheats/": "specimens are data",
    "corpus/hostile/": "specimens are data",
}
"""Files and folders -> why they may read the environment or count processors."""

FORBIDDEN = re.compile(
    r"\b(environ|environb|getenv|sched_getaffinity|cpu_count|process_cpu_count|G?OMP_[A-Z]\w*)\b"
)


def uses(source: str) -> Iterator[str]:
    """Yield ``LINE: NAME`` for every forbidden name in code or in texts that are no docstrings."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.Attribute):
            text = node.attr
        elif isinstance(node, ast.Name):
            text = node.id
        elif isinstance(node, ast.alias):
            text = node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            text = node.value
        elif isinstance(node, ast.keyword):
            text = node.arg or ""
        for match in FORBIDDEN.finditer(text):
            yield f"{node.lineno}: {match[0]}"


def test_only_probes_settings_keys_and_the_referee_ask_the_process_what_it_runs_on() -> None:
    offenders = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(tuple(ALLOWED)):
            offenders += [f"{name}:{use}" for use in uses(path.read_text(encoding="utf-8"))]
    assert offenders == []


def test_nothing_is_allowed_that_has_no_need() -> None:
    for allowed in ALLOWED:
        files = [ROOT / allowed] if allowed.endswith(".py") else (ROOT / allowed).rglob("*.py")
        assert any(any(uses(path.read_text(encoding="utf-8"))) for path in files), allowed


@pytest.mark.parametrize(
    "source",
    [
        "import os\nn = len(os.sched_getaffinity(0))",
        "from os import environ\nprint(environ['CXX'])",
        "from os import cpu_count as count\nn = count()",
        "import os\nhome = os.getenv('HOME')",
        "import multiprocessing\nn = multiprocessing.cpu_count()",
        "def start(run):\n    run(OMP_NUM_THREADS='1')",
        "child = {'GOMP_SPINCOUNT': '0'}",
    ],
)
def test_the_guard_sees_it(source: str) -> None:
    assert list(uses(source))


def test_the_guard_leaves_prose_alone() -> None:
    assert not list(uses('"""Threads are those of OMP_NUM_THREADS."""\nx = 1\n"""Not os.environ."""'))
