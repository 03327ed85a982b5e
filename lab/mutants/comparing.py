"""Are two kernels the same to the last bit? Run in a process of its own: mutants may crash.

Usage: python -m lab.mutants.comparing FILE, a JSON object with ``task`` (a Task), ``one``
and ``other`` (sources). Prints one line: on how many draws outputs are equal, and the largest difference.
"""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelwright.core.task import Task
from kernelwright.referee.host.input_distributions import change_inputs
from kernelwright.referee.host.weight_draws import change_state
from kernelwright.tasks.namespace import construct_model, load_namespace

FAMILIES = (
    ("as_is", 0),
    ("scaled", 0),
    ("scaled", 1),
    ("negated", 0),
    ("sparse_spikes", 0),
    ("heavy_tail", 0),
    ("offset", 0),
    ("coarse", 0),
)
SEEDS = 3


def compare(task: Task, one: str, other: str) -> str:
    """Return what is found, in words."""
    namespace = load_namespace(task, task.workloads[0])
    reference = construct_model(task, namespace, seed=0)
    models = [_module(source, namespace, reference) for source in (one, other)]
    n_equal = n_draws = 0
    largest = 0.0
    for seed in range(SEEDS):
        for family, variant in FAMILIES:
            with torch.no_grad():
                outputs = [_outputs(model, reference, namespace, family, variant, seed) for model in models]
            n_draws += 1
            n_equal += all(torch.equal(a, b) for a, b in zip(*outputs, strict=True))
            gaps = [(a.double() - b.double()).abs().max() for a, b in zip(*outputs, strict=True)]
            largest = max([largest, *(float(gap) for gap in gaps)])
    if n_equal == n_draws:
        return f"equal to the last bit on {n_draws} draws"
    return f"equal to the last bit on {n_equal} of {n_draws} draws, largest difference {largest:.2g}"


def _module(source: str, namespace: ModuleType, reference: torch.nn.Module) -> torch.nn.Module:
    own: dict[str, Any] = {"__name__": "compared"}
    exec(compile(source, "<compared>", "exec"), own)
    module: torch.nn.Module = own["ModelNew"](*namespace.get_init_inputs())
    return module.train(reference.training)


def _outputs(
    model: torch.nn.Module, reference: torch.nn.Module, namespace: ModuleType, family: str,
    variant: int, seed: int,
) -> list[torch.Tensor]:  # fmt: skip
    generator = torch.Generator().manual_seed(seed + 1000)
    state = {name: tensor.clone() for name, tensor in reference.state_dict().items()}
    parameters = {name for name, _ in reference.named_parameters()}
    for name, tensor in state.items():
        if tensor.is_floating_point() and seed:
            change_state(tensor, name in parameters, "signed", generator)
    model.load_state_dict(state)
    torch.manual_seed(seed)
    inputs = namespace.get_inputs()
    for x in inputs:
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            change_inputs(x, family, variant, generator)
    result = model(*inputs)
    outputs = list(result) if isinstance(result, tuple | list) else [result]
    return [*outputs, *(value.clone() for value in model.state_dict().values())]


def main() -> int:
    """Compare what the file names."""
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.stdout.write(compare(Task.model_validate(given["task"]), given["one"], given["other"]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
