"""The words of docs/glossary.md: what it names exists, and no two classes of the product share a name."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "kernelwright"
GLOSSARY = ROOT / "docs" / "glossary.md"
OF_TASKS = frozenset({"Model", "ModelNew"})
"""Classes that tasks and candidates define, not the product."""
DATA = (("tasks", "suite"), ("corpus", "tasks"), ("corpus", "cheats"), ("corpus", "hostile"))
"""Folders of task files and specimens, whose classes are data."""


@cache
def classes() -> dict[str, list[str]]:
    """Return class name -> the files of the product that define it, nested classes included."""
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE)
        if file.parts[:2] in DATA:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(file.as_posix())
    return dict(found)


def rows() -> list[tuple[str, str, str]]:
    """Return term, meaning and place of every entry."""
    lines = [line.strip("| ").split(" | ") for line in GLOSSARY.read_text(encoding="utf-8").splitlines()]
    return [
        (cells[0], cells[1], cells[2]) for cells in lines if len(cells) == 3 and cells[0].startswith("**")
    ]


def test_the_glossary_has_entries_in_alphabetical_order() -> None:
    terms = [term.strip("*").lower() for term, _, _ in rows()]
    assert len(terms) > 50
    assert terms == sorted(terms)


def test_every_place_that_the_glossary_names_exists() -> None:
    places = {place for _, _, where in rows() for place in re.findall(r"`([^`]+)`", where)}
    assert places
    assert [place for place in sorted(places) if not _exists(place)] == []


def _exists(place: str) -> bool:
    return (PACKAGE / place).exists() or (ROOT / place).exists()


def test_every_class_that_the_glossary_names_exists() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z][a-z]\w*)`", text)) - OF_TASKS
    assert sorted(named - classes().keys()) == []


def test_no_two_classes_of_the_product_share_a_name() -> None:
    assert {name: files for name, files in classes().items() if len(files) > 1} == {}


def test_a_class_is_found_with_its_file() -> None:
    assert classes()["Evaluation"] == ["core/evaluation.py"]
