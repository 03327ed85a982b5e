"""``kernelwright compare``: recipes, tasks and seeds under one budget, with a table and a picture."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli import modeloptions, options
from kernelwright.cli.benchtasks import collect
from kernelwright.cli.comparing import Grid, Roster, Sources, play_all
from kernelwright.cli.experiments import command_at_work, make_folder, resume_command
from kernelwright.cli.interruption import interrupted
from kernelwright.cli.output import json_text, print_json, stdout, write_text
from kernelwright.cli.running import open_store
from kernelwright.cli.signals import interruptible
from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.core.run import DEFAULT_RECIPE
from kernelwright.report import comparisontext
from kernelwright.report.comparison import Comparison, Conditions, compare_runs
from kernelwright.report.comparisonpicture import comparison_picture
from kernelwright.report.played import Contestant, Played

DEFAULT_EVALUATIONS = 16
"""Granted to every run when no budget is named; our choice."""


class Memory(StrEnum):
    """What a run knows of others."""

    COLD = "cold"
    WARM = "warm"


def compare(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[suite | FOLDER | FILE...]", help="Tasks; default: our own suite."),
    ] = None,
    recipes: Annotated[
        str, typer.Option("--recipes", metavar="NAME,...", help="Who is compared.")
    ] = DEFAULT_RECIPE,
    team: Annotated[
        str, typer.Option("--team", metavar="NAME,...", help="Who plays; each recipe is played by each.")
    ] = "expert",
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="NUMBER,...", help="Each task is run once per seed.")
    ] = "0",
    target: options.TargetOption = "cpu/cpp",
    budget_evaluations: Annotated[
        int | None,
        typer.Option(
            "--budget-evaluations",
            min=1,
            help="Candidates a run may measure; the same for every recipe.",
            show_default=f"{DEFAULT_EVALUATIONS} where no other budget is given",
        ),
    ] = None,
    budget_seconds: options.BudgetSeconds = None,
    budget_calls: modeloptions.BudgetCalls = None,
    budget_tokens: modeloptions.BudgetTokens = None,
    budget_usd: modeloptions.BudgetUsd = None,
    memory: Annotated[
        Memory,
        typer.Option(
            "--memory",
            help="cold: no run knows of another. warm: all know what the store knew when it began.",
        ),
    ] = Memory.COLD,
    reuse: Annotated[
        bool,
        typer.Option(
            "--reuse-measurements",
            help="Measure a candidate once per task, whoever proposes it; it is charged all the same.",
        ),
    ] = False,
    record: Annotated[
        Path | None, typer.Option("--record", help="Add every measurement to this file, for --replay.")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", help="Measure nothing: read a recording (file or folder), or a store."),
    ] = None,
    model: modeloptions.ModelOption = None,
    base_url: modeloptions.BaseUrl = None,
    role_model: modeloptions.RoleModels = None,
    temperature: modeloptions.Temperature = None,
    max_output_tokens: modeloptions.MaxOutputTokens = None,
    context_tokens: modeloptions.ContextTokens = None,
    price: modeloptions.Prices = None,
    tasks: Annotated[
        Path | None,
        typer.Option("--tasks", help="YAML list of {path, overrides, group}; give the folder as argument."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Only this group of --tasks; may be repeated.")
    ] = None,
    only: Annotated[str | None, typer.Option("--only", help="Glob over task names.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The first N tasks.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the experiment.", show_default="compare-DATE-TIME")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="NAME", help="Go on; ended runs are skipped.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results.", show_default="./NAME")
    ] = None,
    store: options.StoreOption = None,
    require_sandbox: options.RequireSandbox = None,
    as_json: options.AsJson = False,
) -> None:
    """Run recipes on the same tasks under one budget; write comparison.json, .md, .svg after each task."""
    if name and resume and name != resume:
        raise UserError("--name and --resume name different experiments; give one of them")
    if group and tasks is None:
        raise UserError("--group picks from a manifest; give one with --tasks")
    budget = Budget(
        evaluations=budget_evaluations,
        seconds=budget_seconds,
        model_calls=budget_calls,
        tokens=budget_tokens,
        usd=budget_usd,
    )
    if budget == Budget():
        budget = Budget(evaluations=DEFAULT_EVALUATIONS)
    conditions = Conditions(
        budget=budget,
        memory=memory.value,
        measurements="replayed" if replay else "reused" if reuse else "fresh",
    )
    _check(conditions, record=record, replay=replay)
    teams = _names(team, "--team")
    # lazy: loads torch
    from kernelwright.agents.teams import needs_model

    with_models = [who for who in teams if needs_model(who)] or teams
    asked = {
        who: modeloptions.make_models(
            who,
            model=model if who in with_models else None,
            base_url=base_url,
            role_models=role_model if who in with_models else None,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            context_tokens=context_tokens,
            price=price,
            target=target,
        )
        for who in teams
    }
    title = resume or name or f"compare-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    grid = Grid(
        title=title,
        entries=tuple(collect(sources or [], manifest=tasks, groups=group or [], only=only, limit=limit)),
        seeds=_seeds(seeds),
        contestants=tuple(Contestant(recipe=r, team=t) for r in _names(recipes, "--recipes") for t in teams),
        target=target,
        conditions=conditions,
        models={
            who: modeloptions.checked(models, team=who, recipes=_names(recipes, "--recipes"), usd=budget_usd)
            for who, models in asked.items()
        },
    )
    folder = make_folder(out or Path(title))
    roster = Roster(open_store(store), grid, Sources(record=record, replay=replay))
    roster.check_earlier(is_resume=resume is not None)
    results = Results(roster, folder)
    with interruptible():
        try:
            play_all(roster, results.write)
        except KeyboardInterrupt:
            interrupted(resume_command(title), as_json=as_json)
    results.finish(roster.played(), as_json=as_json)


def _check(conditions: Conditions, *, record: Path | None, replay: Path | None) -> None:
    if replay is not None and record is not None:
        raise UserError("--replay measures nothing, so there is nothing to --record; give one of them")
    if not conditions.is_timed and conditions.budget.seconds is not None:
        raise UserError(
            "--budget-seconds means nothing where measurements are not made anew; give --budget-evaluations"
        )


def _names(text: str, option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise UserError(f"{option} {text!r}: expected names with commas between them")
    return names


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UserError(f"--seeds {text!r}: expected whole numbers such as 0,1,2") from None


class Results:
    """The three files of a comparison."""

    def __init__(self, roster: Roster, folder: Path) -> None:
        self._roster, self._grid, self._folder = roster, roster.grid, folder

    def write(self, played: list[Played]) -> dict[str, object]:
        """Write the files from the runs so far and return the document."""
        grid, folder = self._grid, self._folder
        comparison = compare_runs(played, grid.contestants, horizon=grid.conditions.budget.evaluations)
        facts = self._roster.environment()
        date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        command = command_at_work()
        document: dict[str, object] = {
            "name": grid.title,
            "date": date,
            "command": command,
            "environment": facts,
            "conditions": grid.conditions,
            "comparison": comparison,
            "runs": played,
        }
        text = comparisontext.comparison_markdown(
            grid.title,
            comparison,
            grid.conditions,
            date=date,
            command=command,
            environment=facts,
            picture="comparison.svg",
        )
        files = [
            write_text(folder / "comparison.json", json_text(document)),
            write_text(folder / "comparison.md", text),
            write_text(folder / "comparison.svg", comparison_picture(grid.title, comparison) + "\n"),
        ]
        return {**document, "files": files}

    def finish(self, played: list[Played], *, as_json: bool) -> None:
        """Write and print the results; exit with 1 unless every run succeeded."""
        document = self.write(played)
        if as_json:
            print_json(document)
        else:
            comparison = document["comparison"]
            assert isinstance(comparison, Comparison)
            show(comparison, self._grid.conditions)
            files = document["files"]
            assert isinstance(files, list)
            stdout().print(f"\nResults: {', '.join(map(str, files))}", soft_wrap=True)
        raise typer.Exit(0 if all(run.is_success for run in played) else 1)


def show(comparison: Comparison, conditions: Conditions) -> None:
    """Print the conditions, the standings, their costs and the pairs."""
    console = stdout()
    console.print(comparisontext.conditions_text(conditions) + "\n", soft_wrap=True)
    for header, lines in (
        (comparisontext.STANDING_HEADER, [comparisontext.standing_cells(s) for s in comparison.standings]),
        (comparisontext.COST_HEADER, [comparisontext.cost_cells(s) for s in comparison.standings]),
        (comparisontext.PAIR_HEADER, [comparisontext.pair_cells(p) for p in comparison.pairs]),
    ):
        if not lines:
            continue
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for i, column in enumerate(header):
            table.add_column(column, justify="left" if i == 0 else "right")
        for line in lines:
            table.add_row(*line)
        console.print(table)
        console.print()
    for failure in comparison.failures:
        text = f"failed: {failure.name}, {failure.task}, seed {failure.seed}: {failure.detail}"
        console.print(text, soft_wrap=True)
