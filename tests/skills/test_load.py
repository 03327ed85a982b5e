"""Skill files: what is accepted, and errors that name file and field."""

from pathlib import Path

import pytest

from kernelwright.core.errors import UserError
from kernelwright.core.evidence import Bottleneck
from kernelwright.core.skill import Predicate
from kernelwright.skills.load import load_skills

GOOD = """---
name: demo
summary: Does a thing.
targets: [cpu/cpp]
bottlenecks: [compute]
requires:
  - graph.n_scans > 0
signals:
  - {when: "run.floor_fraction < 0.5", weight: 2}
expects:
  - {metric: run.latency_ms, direction: down, factor: 1.2}
params:
  unroll: [4, 2]
lowering: schedule:unroll
sources: ["a book"]
---
## When
Text with --- dashes.
"""


def write(folder: Path, text: str, name: str = "demo.md") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_skill_file_becomes_a_skill(tmp_path: Path) -> None:
    skill = load_skills(write(tmp_path, GOOD))["demo"]
    assert skill.bottlenecks == (Bottleneck.COMPUTE,)
    assert skill.requires == (Predicate(metric="graph.n_scans", op=">", value=0),)
    assert skill.signals[0].weight == 2
    assert skill.params == {"unroll": (4, 2)}
    assert skill.body.startswith("## When")


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("name: demo", "name: other", "name"),
        ("summary: Does a thing.\n", "", "summary"),
        ("[compute]", "[computing]", "bottlenecks.0"),
        ("- graph.n_scans > 0", "- graph.n_scans bigger 0", "requires"),
        ("- graph.n_scans > 0", "- {metric: graph.n_scans}", "requires"),
        ('{when: "run.floor_fraction < 0.5", weight: 2}', '{if: "x < 1"}', "signals"),
        ("targets:", "target:", "target"),
        ("factor: 1.2", "factor: much", "expects.0.factor"),
        ("params:\n  unroll: [4, 2]", "params: 3", "params"),
        ("sources:", "body: x\nsources:", "front matter"),
        ("name: demo\n", "name: [demo\n", "front matter"),
    ],
)
def test_errors_name_file_and_field(tmp_path: Path, old: str, new: str, field: str) -> None:
    assert old in GOOD
    with pytest.raises(UserError) as caught:
        load_skills(write(tmp_path, GOOD.replace(old, new)))
    assert "demo.md" in str(caught.value)
    assert field in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_without_front_matter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="front matter"):
        load_skills(write(tmp_path, "# just text\n"))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no skills in"):
        load_skills(tmp_path)


def test_skills_lie_in_subfolders_too_and_names_are_unique(tmp_path: Path) -> None:
    (tmp_path / "gpu").mkdir()
    write(tmp_path, GOOD)
    write(tmp_path / "gpu", GOOD.replace("name: demo", "name: another"), "another.md")
    assert list(load_skills(tmp_path)) == ["another", "demo"]
    write(tmp_path / "gpu", GOOD)
    with pytest.raises(UserError, match="also the name of"):
        load_skills(tmp_path)


def test_the_library_loads() -> None:
    skills = load_skills()
    assert len(skills) >= 28
    assert list(skills) == sorted(skills)
