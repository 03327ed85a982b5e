"""``kernelwright skills``: the curated long-term memory."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from kernelwright.cli.options import AsJson
from kernelwright.cli.output import print_json, print_table, stdout
from kernelwright.core.errors import UserError
from kernelwright.report.table import Table

app = typer.Typer(help="Skills: list, show, lint.", no_args_is_help=True)
Folder = Annotated[
    Path | None, typer.Option("--folder", help="Folder of skill files.", show_default="the built-in library")
]


@app.command("list")
def list_skills(
    target: Annotated[str | None, typer.Option("--target", help="Only those for this target.")] = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """List skills with what they are for."""
    # lazy: keeps --help quick
    from kernelwright.skills.load import load_skills

    skills = load_skills(folder).values()
    known = sorted({name for skill in skills for name in skill.targets})
    if target is not None and target not in known:
        raise UserError(f"unknown target {target!r}; there are skills for {', '.join(known)}")
    found = [skill for skill in skills if target is None or target in skill.targets]
    if as_json:
        print_json([skill.model_dump(mode="json", exclude={"body"}) for skill in found])
        return
    rows = []
    for skill in found:
        against = ", ".join(b.replace("_", " ") for b in skill.bottlenecks)
        rows.append((skill.name, against, skill.lowering or "guidance only", skill.summary))
    header = ("skill", "against", "carried out by", "summary")
    print_table(Table(header, rows, is_text=True, spare=header[1:3]), whole=("skill",))


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="SKILL")],
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show one skill in full."""
    # lazy: keeps --help quick
    from kernelwright.skills.load import load_skills

    known = load_skills(folder)
    if name not in known:
        raise UserError(f"unknown skill {name!r}; known: {', '.join(known)}")
    skill = known[name]
    if as_json:
        print_json(skill)
        return
    console = stdout()
    console.print(f"{skill.name}: {skill.summary}", soft_wrap=True, style="bold")
    console.print(f"targets: {', '.join(skill.targets)}; against: {', '.join(skill.bottlenecks)}")
    console.print(f"carried out by: {skill.lowering or 'guidance only'}")
    console.print(f"sources: {'; '.join(skill.sources)}\n", soft_wrap=True)
    console.print(Markdown(skill.body) if console.is_terminal else skill.body, soft_wrap=True)


@app.command()
def lint(folder: Folder = None, as_json: AsJson = False) -> None:
    """Check the library; exits 1 when something is wrong with it."""
    # lazy: loads torch
    from kernelwright.skills.lint import lint as find_problems
    from kernelwright.skills.load import load_skills
    from kernelwright.targets.for_skills import skill_targets

    known = load_skills(folder)
    problems = find_problems(known, skill_targets())
    if as_json:
        print_json({"skills": len(known), "problems": [problem.model_dump() for problem in problems]})
    else:
        for problem in problems:
            stdout().print(f"{problem.skill}: {problem.text}", soft_wrap=True)
        stdout().print(f"{len(known)} skills, {len(problems)} problems")
    raise typer.Exit(1 if problems else 0)
