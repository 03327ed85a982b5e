"""The command that starts the same run again."""

import shlex
from collections.abc import Iterator

from kernelwright.core.models import ModelSettings
from kernelwright.core.policy import LibraryCalls
from kernelwright.core.run import RunSpec

BUDGETS = (
    ("evaluations", "--budget-evaluations"),
    ("seconds", "--budget-seconds"),
    ("model_calls", "--budget-calls"),
    ("tokens", "--budget-tokens"),
    ("usd", "--budget-usd"),
)


def command_line(spec: RunSpec) -> str:
    """Return the command that starts the same run again; keys come from the environment, as they did."""
    words = ["kernelwright", "optimize", spec.task.path or f"{spec.task.name}.py"]
    words += ["--recipe", spec.recipe, "--team", spec.team]
    words += _model_words(spec.models) if spec.models is not None else ()
    words += ["--target", str(spec.target), "--seed", str(spec.seed)]
    for name, option in BUDGETS:
        amount = getattr(spec.budget, name)
        words += [option, f"{amount:.15g}"] if amount is not None else []
    for workload in spec.task.workloads:
        bound = ",".join(f"{name}={value!r}" for name, value in workload.overrides.items())
        words += ["--workload", f"{workload.name}:{bound}"] if bound else []
    words += ["--mode", spec.task.mode, "--tolerance", spec.task.tolerance]
    if spec.policy.library_calls is not LibraryCalls.ALLOWED:
        words += ["--library-calls", spec.policy.library_calls]
    return shlex.join(words)


def _model_words(models: ModelSettings) -> Iterator[str]:
    yield from ("--model", models.model)
    if models.base_url is not None:
        yield from ("--base-url", models.base_url)
    if models.temperature is not None:
        yield from ("--temperature", f"{models.temperature:g}")
    yield from ("--max-output-tokens", str(models.max_output_tokens))
    if models.context_tokens is not None:
        yield from ("--context-tokens", str(models.context_tokens))
    for role, choice in models.roles.items():
        degrees = "" if choice.temperature is None else f"@{choice.temperature:g}"
        yield from ("--role-model", f"{role}={choice.model or ''}{degrees}")
    if models.usd_per_million_input is not None:
        yield from ("--price", f"{models.usd_per_million_input:g},{models.usd_per_million_output:g}")
    for choice in models.roles.values():
        if choice.usd_per_million_input is not None and choice.model is not None:
            price = f"{choice.usd_per_million_input:g},{choice.usd_per_million_output:g}"
            yield from ("--price", f"{choice.model}={price}")
