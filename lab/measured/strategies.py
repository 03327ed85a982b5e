"""Kernel Tuner's own strategies on a measured space, in its simulation mode; the package is optional."""

import contextlib
import io
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.measured.space import Key, MeasuredSpace

STRATEGIES = ("random_sample", "genetic_algorithm", "simulated_annealing", "diff_evo", "greedy_ils")
"""Of those that it has; with the defaults of its options."""
FAILED = "RuntimeFailedConfig"


def is_there() -> bool:
    """Tell whether the package is installed."""
    try:
        import kernel_tuner  # noqa: F401  lazy: optional
    except ImportError:
        return False
    return True


def version() -> str:
    """Return the package's version."""
    from importlib.metadata import version as version_of

    return version_of("kernel_tuner")


def write_cache(space: MeasuredSpace, path: Path) -> None:
    """Write the space as the package's simulation mode reads it."""
    cache: dict[str, Any] = {}
    for key, point in space.table.items():
        time = space.times[key]
        cache[",".join(map(str, key))] = {
            **point.values,
            "time": FAILED if time is None else time,
            "times": list(point.times_ms),
            **dict.fromkeys(("compile_time", "verification_time", "benchmark_time"), 0.0),
            **dict.fromkeys(("strategy_time", "framework_time"), 0.0),
        }
    document = {
        "device_name": space.device,
        "kernel_name": space.kernel,
        "problem_size": [1],
        "tune_params_keys": list(space.points[0].values),
        "tune_params": _values(space),
        "objective": "time",
        "cache": cache,
    }
    path.write_text(json.dumps(document), encoding="utf-8")


def tuned_by(strategy: str, space: MeasuredSpace, cache: Path, budget: int, seed: int) -> list[Key]:
    """Return the points that a strategy evaluates, each once, in order."""
    import kernel_tuner  # lazy: optional
    from constraint import FunctionConstraint  # lazy: comes with it

    names = list(space.points[0].values)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results, _ = kernel_tuner.tune_kernel(
            space.kernel,
            "__global__ void nothing() {}",
            [1],
            [],
            _values(space),
            restrictions=[FunctionConstraint(lambda *values: values in space.table)],
            lang="CUDA",
            cache=str(cache),
            simulation_mode=True,
            strategy=strategy,
            strategy_options={"max_fevals": budget},
            quiet=True,
            seed=seed,
        )
    keys = (space.key({name: result[name] for name in names}) for result in results)
    return [key for key in dict.fromkeys(keys) if key in space.table][:budget]


def _values(space: MeasuredSpace) -> dict[str, Sequence[Any]]:
    return {name: list(space.ordered(name)) for name in space.points[0].values}
