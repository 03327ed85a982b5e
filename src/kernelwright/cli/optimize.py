"""``kernelwright optimize``: a task file in, a verified faster module and a report out."""

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelwright.cli import modeloptions, options
from kernelwright.cli.output import print_json, print_verdict, require_writable, stderr, write_text
from kernelwright.cli.progress import make_progress
from kernelwright.cli.running import (
    create_run,
    find_evaluator,
    open_store,
    play,
    resume_command,
    save_recording,
)
from kernelwright.core.errors import UserError
from kernelwright.core.policy import LibraryCalls
from kernelwright.core.run import DEFAULT_RECIPE
from kernelwright.report.asked import with_models
from kernelwright.report.measures import floor_fraction, speedup_over
from kernelwright.report.story import tell
from kernelwright.report.verdict import run_verdict

if TYPE_CHECKING:
    from kernelwright.runs.loop import RunOutcome
    from kernelwright.store.base import Store


def optimize(
    file: Annotated[Path, typer.Argument(help="KernelBench-format file with Model and get_inputs.")],
    recipe: options.RecipeOption = DEFAULT_RECIPE,
    team: options.TeamOption = "expert",
    target: options.TargetOption = "cpu/cpp",
    budget_evaluations: options.BudgetEvaluations = None,
    budget_seconds: options.BudgetSeconds = None,
    budget_calls: modeloptions.BudgetCalls = None,
    budget_tokens: modeloptions.BudgetTokens = None,
    budget_usd: modeloptions.BudgetUsd = None,
    model: modeloptions.ModelOption = None,
    base_url: modeloptions.BaseUrl = None,
    role_model: modeloptions.RoleModels = None,
    temperature: modeloptions.Temperature = None,
    max_output_tokens: modeloptions.MaxOutputTokens = None,
    context_tokens: modeloptions.ContextTokens = None,
    price: modeloptions.Prices = None,
    seed: options.SeedOption = 0,
    workload: options.WorkloadOption = None,
    mode: options.ModeOption = None,
    tolerance: options.ToleranceOption = None,
    evaluator: options.EvaluatorOption = None,
    store: options.StoreOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Kernel file.", show_default="FILE_fast.py")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="HTML report.", show_default="FILE_report.html")
    ] = None,
    open_report: Annotated[bool, typer.Option("--open/--no-open", help="Open the report.")] = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", help="Folder for the run's answers and measurements: see runs replay."),
    ] = None,
    library_calls: options.LibraryCallsOption = LibraryCalls.ALLOWED,
    baseline: options.BaselineOption = None,
    require_sandbox: options.RequireSandbox = None,
    as_json: options.AsJson = False,
) -> None:
    """Search for a faster module that computes the same, and prove it."""
    # lazy: keeps --help quick
    from kernelwright.tasks.kernelbench import load_task

    baselines = options.further_baselines(baseline, target)
    models = modeloptions.make_models(
        team,
        model=model,
        base_url=base_url,
        role_models=role_model,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
        context_tokens=context_tokens,
        price=price,
        target=target,
    )
    task = load_task(file, workloads=options.parse_workloads(workload), mode=mode, tolerance=tolerance)
    kernel_path = require_writable(output or Path(f"{file.stem}_fast.py"))
    report_path = require_writable(report or Path(f"{file.stem}_report.html"))
    judge = find_evaluator(evaluator)
    if judge is not None and library_calls is not LibraryCalls.ALLOWED:
        raise UserError("--library-calls: with --evaluator the evaluator's own policy holds; give it there")
    opened = open_store(store)
    spec = options.make_spec(
        task,
        recipe=recipe,
        team=team,
        target=target,
        evaluations=budget_evaluations,
        seconds=budget_seconds,
        seed=seed,
        models=modeloptions.checked(models, team=team, recipes=[recipe], usd=budget_usd),
        calls=budget_calls,
        tokens=budget_tokens,
        usd=budget_usd,
        library_calls=library_calls,
        baselines=baselines,
        evaluator=judge,
    )
    if spec.machine.is_assumed:
        stderr().print(f"{evaluator} does not say what its machine is: kernels are planned for one like this")
    run_id = create_run(opened, spec.model_copy(update={"is_cold": record is not None}))
    outcome = play(
        opened,
        run_id,
        make_progress(task.name),
        resume_with=resume_command(run_id, store, evaluator),
        as_json=as_json,
        evaluator=judge,
    )
    if record is not None:
        save_recording(opened, run_id, record)
    deliver(opened, outcome, kernel_path, report_path, as_json=as_json, open_report=open_report)


def deliver(
    store: "Store",
    outcome: "RunOutcome",
    kernel_path: Path,
    report_path: Path,
    *,
    as_json: bool,
    open_report: bool = False,
) -> None:
    """Write what a finished run has to give, say its verdict and exit with its code."""
    # lazy: Jinja2 is only needed here
    from kernelwright.report.html import render_report

    write_text(report_path, render_report(store, outcome.run_id))
    if outcome.winner is not None:
        write_text(kernel_path, outcome.winner.source)
    written = kernel_path if outcome.winner is not None else None
    if as_json:
        print_json(outcome_document(store, outcome, written, report_path))
    else:
        story = tell(stored.event for stored in store.iter_events(outcome.run_id))
        paths = [f"Kernel: {written}"] if written else []
        if outcome.every_call_failed:
            stderr().print("error: every call to the model failed; what the expert seats made is kept")
        verdict = with_models(run_verdict(story), store.get_run(outcome.run_id).spec.models, story)
        print_verdict(verdict, "", *paths, f"Report: {report_path}", f"Run: {outcome.run_id}")
    if open_report and not webbrowser.open(report_path.resolve().as_uri()):
        stderr().print(f"no browser to open {report_path} with")
    raise typer.Exit(exit_code(outcome))


def exit_code(outcome: "RunOutcome") -> int:
    """Return 0 for a verified winner or an unchanged module, 1 when a winner did not hold, 2 when every
    call to a model failed."""
    if outcome.every_call_failed:
        return 2
    if outcome.winner is None:
        return 0
    return 0 if outcome.evaluation is not None and outcome.evaluation.is_verified else 1


def outcome_document(
    store: "Store", outcome: "RunOutcome", kernel: Path | None, report: Path | None
) -> dict[str, Any]:
    """Return a run's outcome as JSON-ready data."""
    evaluation = outcome.evaluation if outcome.winner is not None else None
    document: dict[str, Any] = {
        "run_id": outcome.run_id,
        "task": store.get_run(outcome.run_id).spec.task.name,
        "verified": exit_code(outcome) == 0,
        "improved": outcome.winner is not None,
        "reason": outcome.reason,
        "spent": outcome.spent,
        "answers": outcome.answers,
        "kernel": kernel,
        "report": report,
        "floor_fraction": floor_fraction(evaluation) if evaluation else None,
        "evaluation": outcome.evaluation,
    }
    for baseline in dict.fromkeys(("eager", "torch_compile", *store.get_run(outcome.run_id).spec.baselines)):
        speedup = speedup_over(evaluation, baseline) if evaluation else None
        document[f"speedup_over_{baseline}"] = speedup._asdict() if speedup else None
    return document
