import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from lab.sample_run import make_store
from rich.console import Console

from kernelwright.cli import memory, runs, skills
from kernelwright.core.errors import UserError
from kernelwright.core.workload_words import parse_workload
from kernelwright.methods import recipes
from kernelwright.report.files import json_text
from kernelwright.report.progress import LiveProgress

COMMANDS = [
    ["optimize"],
    ["evaluate"],
    ["inspect"],
    ["audit"],
    ["bench"],
    ["compare"],
    ["doctor"],
    *(["runs", verb] for verb in ("list", "show", "resume", "record", "replay", "export", "report")),
    ["check"],
    ["space"],
    ["tune"],
    *(["skills", verb] for verb in ("list", "show", "lint")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_offers_json_and_help(cli: Any, command: list[str]) -> None:
    result = cli(*command, "--help")
    assert result.code == 0
    assert "--json" in result.out


def test_help_names_every_recipe_that_is_no_ablation(cli: Any) -> None:
    shown = cli("optimize", "--help").out
    assert [name for name in recipes() if "-no-" not in name and name not in shown] == []


@pytest.mark.parametrize("group", [runs, skills, memory])
def test_a_groups_line_names_all_its_commands(group: Any) -> None:
    names = [known.name or known.callback.__name__ for known in group.app.registered_commands]
    assert names and [name for name in names if name not in group.app.info.help] == []


def test_help_loads_neither_torch_nor_a_database() -> None:
    program = (
        "import sys; from kernelwright.cli.main import run; code = run(['--help']); "
        "print(code, sorted({'torch', 'sqlalchemy', 'numpy', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_commands_can_be_completed_by_a_shell(cli: Any) -> None:
    assert "--install-completion" in cli("--help").out


def test_options_stand_in_panels(cli: Any) -> None:
    shown = cli("optimize", "--help").out
    for panel in ("Task", "Search", "Budget", "Judging", "Language models", "Results"):
        assert f"─ {panel} ─" in shown


def test_version(cli: Any) -> None:
    assert cli("--version").out.startswith("kernelwright ")


def test_skills_are_listed_and_shown(cli: Any) -> None:
    listed = cli("skills", "list", "--json").json
    assert len(listed) > 0 and "body" not in listed[0]
    name = listed[0]["name"]
    assert name in cli("skills", "list").out
    assert cli("skills", "show", name, "--json").json["name"] == name
    assert listed[0]["summary"] in cli("skills", "show", name).out


def test_skills_are_listed_by_target(cli: Any) -> None:
    for target in ("cpu/cpp", "cuda/triton", "hip/hip"):
        listed = cli("skills", "list", "--target", target, "--json").json
        assert listed and all(target in skill["targets"] for skill in listed)
    assert "there are skills for cpu/cpp, " in cli("skills", "list", "--target", "metal/msl").err


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("small:batch=8", {"batch": 8}),
        ("s:n=8,size=(3, 4),name='a,b'", {"n": 8, "size": (3, 4), "name": "a,b"}),
        ("s:dims=[1, 2],scale=-0.5,flag=True", {"dims": (1, 2), "scale": -0.5, "flag": True}),
        ("plain", {}),
    ],
)
def test_workloads_are_python_literals(text: str, overrides: dict[str, object]) -> None:
    assert parse_workload(text).overrides == overrides


@pytest.mark.parametrize(
    "text", ["", ":a=1", "s:", "s:a", "s:a=b", "s:a=__import__('os')", "s:**{'a': 1}", "s:a=1)+(2", "s:a={}"]
)
def test_a_workload_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--workload"):
        parse_workload(text)


def test_live_display_shows_task_steps_and_activity() -> None:
    console = Console(width=120, height=40, record=True, force_terminal=True, file=StringIO())
    progress = LiveProgress(console, "softplus_scale")
    for event in make_store(is_finished=False).events[:-1]:
        progress.add(event)
    console.print(progress.render())
    shown = console.export_text()
    assert "softplus_scale  eager 9.6 ms, floor 1.2 ms (memory)" in shown
    assert "fuse-pointwise @ k0" in shown and "5.93x [5.69, 6.22]" in shown
    assert "building, verifying, timing vector-width @ k0" in shown
    assert "streaming-stores" not in shown


def test_json_is_strict_even_where_a_figure_is_infinite() -> None:
    text = json_text({"error": float("inf"), "nested": [float("nan"), 1.5], "path": Path("x")})
    assert json.loads(text) == {"error": None, "nested": [None, 1.5], "path": "x"}
