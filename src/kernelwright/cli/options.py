"""Options that several commands share, and how their text becomes our nouns."""

import ast
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings
from kernelwright.core.policy import LibraryCalls, Policy
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Literal_, Mode, Task, TolerancePolicy, Workload
from kernelwright.referee.sandbox.tiers import Tier
from kernelwright.settings import SANDBOX_VARIABLE, load_settings, require_sandbox

if TYPE_CHECKING:
    from kernelwright.runs.evaluator import Evaluator

AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout.")]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", help="SQLite file or SQLAlchemy URL of the store.", show_default="KERNELWRIGHT_STORE"
    ),
]
RecipeOption = Annotated[
    str,
    typer.Option(
        "--recipe",
        help="How to search: kernelwright, kernelskill, stark, scientist, cupilot, fsr, best-of-n, refine; "
        "see docs/recipes.",
    ),
]
TeamOption = Annotated[
    str,
    typer.Option(
        "--team", help="Who plans and writes: expert, llm, or a mixture such as expert+planner=llm,coder=llm."
    ),
]
TargetOption = Annotated[str, typer.Option("--target", help="Device and language to write for.")]
BudgetEvaluations = Annotated[
    int | None,
    typer.Option(
        "--budget-evaluations", min=1, help="Candidates to measure at most.", show_default="the recipe's"
    ),
]
BudgetSeconds = Annotated[
    float | None, typer.Option("--budget-seconds", min=0.0, help="Seconds to search at most.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the search's own choices.")]
EvaluatorOption = Annotated[
    str | None,
    typer.Option(
        "--evaluator",
        metavar="URL | drop:FOLDER",
        help="Judge candidates elsewhere: at a `kernelwright serve`, or through files in a folder.",
        show_default="the referee here",
    ),
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        metavar="NAME:GLOBAL=VALUE,...",
        help="One more shape to be right and fast on; rebinds module-level globals. Repeatable.",
    ),
]
ModeOption = Annotated[
    Mode | None, typer.Option("--mode", help="Train or eval mode.", show_default="the file's")
]
ToleranceOption = Annotated[
    TolerancePolicy | None,
    typer.Option("--tolerance", help="How far from the oracle is allowed.", show_default="the file's"),
]


LibraryCallsOption = Annotated[
    LibraryCalls,
    typer.Option("--library-calls", help="May a kernel leave the work to torch and its libraries?"),
]


BaselineOption = Annotated[
    list[str] | None,
    typer.Option(
        "--baseline",
        help="Compare what is delivered with this: eager, torch_compile; on a GPU also eager_tf32, "
        "torch_compile_max_autotune. Repeatable.",
        show_default="eager and torch_compile",
    ),
]


def require_device(device: str) -> None:
    """Raise UserError where there is no such device."""
    # lazy: keeps --help quick
    from kernelwright.referee.device import parse_device

    found = parse_device(device)
    if found.has_driver and not found.about.is_here():
        raise UserError(
            f"--device {device}: torch finds no such device here; leave it out to judge on the CPU"
        )


def parse_baselines(names: list[str] | None, device: str) -> tuple[str, ...]:
    """Return the baselines to compare with; raises UserError for an unknown one, or an unknown device."""
    # lazy: keeps --help quick
    from kernelwright.referee.baselines import known_baselines

    known = known_baselines(device)
    unknown = [name for name in names or [] if name not in known]
    if unknown:
        raise UserError(f"unknown baseline {unknown[0]!r}; known: {', '.join(known)}")
    return tuple(dict.fromkeys(names or ["eager"]))


def further_baselines(names: list[str] | None, target: str) -> tuple[str, ...] | None:
    """Return what is to be compared with: always with eager, too; None: nothing else was asked for.

    Raises:
        UserError: there is no such baseline on the target's device.
    """
    if not names:
        return None
    return tuple(dict.fromkeys(("eager", *parse_baselines(names, target.partition("/")[0]))))


def _require_sandbox(context: typer.Context, tier: Tier | None) -> Tier | None:
    """Refuse before anything is begun; raises UserError."""
    if tier is None or context.resilient_parsing:
        return tier
    # lazy: starts processes
    from kernelwright.referee.sandbox.choose import probe, require

    require(probe(), tier)
    require_sandbox(tier)
    return tier


RequireSandbox = Annotated[
    Tier | None,
    typer.Option(
        "--require-sandbox",
        metavar="TIER",
        envvar=SANDBOX_VARIABLE,
        show_envvar=False,
        callback=_require_sandbox,
        help="Refuse to judge in a weaker sandbox: namespaces, bubblewrap, landlock or limits.",
        show_default="the best there is",
    ),
]


def parse_workload(text: str) -> Workload:
    """Parse ``name:global=value,...`` with Python literals as values; raises UserError.

    Example:
        >>> parse_workload("small:batch=8,size=(3, 4)").overrides
        {'batch': 8, 'size': (3, 4)}
    """
    name, colon, bound = text.partition(":")
    problem = f"--workload {text!r}: expected NAME:GLOBAL=VALUE,... such as small:batch_size=8"
    if not name.strip() or (colon and not bound.strip()):
        raise UserError(problem)
    try:
        call = ast.parse(f"_({bound})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("not assignments")
        overrides = {str(word.arg): _literal(word.value) for word in call.keywords if word.arg is not None}
        if len(overrides) != len(call.keywords):
            raise ValueError("not plain names")
    except (SyntaxError, ValueError) as error:
        raise UserError(problem) from error
    return Workload(name=name.strip(), overrides=overrides)


def _literal(node: ast.expr) -> Literal_:
    value = ast.literal_eval(node)
    if isinstance(value, list | tuple):
        return tuple(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{value!r} is not a number, text or a tuple of them")


def parse_workloads(texts: list[str] | None) -> tuple[Workload, ...]:
    """Parse every ``--workload``; raises UserError when two share a name."""
    workloads = tuple(parse_workload(text) for text in texts or [])
    names = [workload.name for workload in workloads]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"--workload: {', '.join(twice)} is given twice; name every workload differently")
    return workloads


def make_spec(
    task: Task,
    *,
    recipe: str,
    team: str,
    target: str,
    evaluations: int | None,
    seconds: float | None,
    seed: int,
    experiment: str | None = None,
    models: ModelSettings | None = None,
    calls: int | None = None,
    tokens: int | None = None,
    usd: float | None = None,
    library_calls: LibraryCalls = LibraryCalls.ALLOWED,
    baselines: tuple[str, ...] | None = None,
    evaluator: "Evaluator | None" = None,
) -> RunSpec:
    """Return the spec of a run; ``baselines`` None: the usual ones, ``evaluator`` None: the referee here.

    Raises:
        UserError: unknown recipe, team or target.
        MachineError: no compiler to measure the machine's peaks with.
    """
    # lazy: keeps --help quick
    from kernelwright.methods import find_recipe
    from kernelwright.referee.sandbox.choose import tier_here
    from kernelwright.runs.machine import machine_of_run
    from kernelwright.targets.registry import find_target

    budget = find_recipe(recipe).budget.model_dump()
    asked = {
        "evaluations": evaluations,
        "seconds": seconds,
        "model_calls": calls,
        "tokens": tokens,
        "usd": usd,
    }
    budget |= {name: amount for name, amount in asked.items() if amount is not None}
    chosen_target = find_target(
        target, has_device=(lambda kind: True) if evaluator is not None else None
    ).name

    # lazy: loads torch
    from kernelwright.agents.teams import check_team

    check_team(team, chosen_target)
    machine = machine_of_run(chosen_target, load_settings().cache_dir, evaluator, sandbox=tier_here())
    return RunSpec(
        task=task,
        target=chosen_target,
        recipe=recipe,
        team=team,
        models=models,
        budget=Budget.model_validate(budget),
        policy=Policy(library_calls=library_calls),
        seed=seed,
        baselines=baselines or RunSpec.model_fields["baselines"].default,
        experiment=experiment,
        machine=machine,
        environment=machine.environment(),
    )
