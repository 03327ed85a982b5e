"""Writes a model with kernels as one candidate, for the referee: a file that needs nothing of ours.

The patched model is exported with a custom operator for each block. Every other operator stays a call of
torch; the operators become functions that hold the blocks' verified programs.
"""

from collections.abc import Mapping
from dataclasses import replace

from kernelwright.core.candidate import COMPILER, Candidate
from kernelwright.core.errors import CaptureError, LoweringError
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.delivery.runtime.contract import Contract
from kernelwright.delivery.runtime.kernel import VerifiedKernel
from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Call, Program
from kernelwright.targets.module_file.nested import nested
from kernelwright.targets.registry import target_of
from kernelwright.tasks.capture import Captured, capture_module
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace
from kernelwright.whole.patching import patch

_OPERATOR = '''
def {name}_fake(*tensors):
    """Return empty tensors like the kernel's results."""
    for shapes, outputs in {cases!r}:
        if [tuple(t.shape) for t in tensors[:{n_inputs}]] == shapes:
            made = [torch.empty_strided(s, st, dtype=getattr(torch, d)) for s, st, d in outputs]
            return made[0] if len(made) == 1 else tuple(made)
    raise ValueError("made for other shapes")


{name}_direct = {name}
{name} = torch.library.custom_op(
    "kernelwright_blocks::{operator}", {name}_direct, mutates_args=(), schema={schema!r}
)
{name}.register_fake({name}_fake)
'''


def print_model(
    task: Task, kernels: Mapping[str, VerifiedKernel], target: TargetName, *, is_compiled: bool = False
) -> Candidate:
    """Return the candidate that computes a task with kernels in some of its blocks.

    Args:
        task: of the whole model.
        kernels: by dotted name of the block.
        target: whose kernels they are.
        is_compiled: torch.compile takes in what lies around them.

    Raises:
        CaptureError: the patched model cannot be exported.
        LoweringError: a kernel is not in the exported graph, or cannot stand in one file with the others.
    """
    programs = {}
    for workload in task.workloads:
        namespace = load_namespace(task, workload)
        model = patch(construct_model(task, namespace, seed=0), kernels)
        captured = capture_module(model, draw_inputs(task, namespace, seed=0))
        programs[workload.name] = (captured, lower(captured, FusionOptions(enabled=False)))
    own = target_of(target)
    alike: dict[object, list[VerifiedKernel]] = {}
    for kernel in {kernel.digest: kernel for kernel in kernels.values()}.values():
        alike.setdefault(_printed_of(kernel), []).append(kernel)
    shared, texts = own.combined([members[0].program for members in alike.values()])
    helpers: dict[str, tuple[str, str]] = {}
    for number, (members, text) in enumerate(zip(alike.values(), texts, strict=True)):
        name = f"_block_{number}"
        made = (name, _helper(members[0].contract, text, name, is_compiled))
        helpers |= {kernel.digest: made for kernel in members}
    with_blocks: dict[str, tuple[Captured, Program]] = {
        name: (captured, _with_blocks(program, helpers)) for name, (captured, program) in programs.items()
    }
    write = own.library_writer
    if write is None:
        raise LoweringError(f"no file can be written for {target}")
    source = _with_shared(write(task, with_blocks, "kernels in the blocks of a model"), shared)
    if is_compiled:
        methods = [name for name in source.split() if name.startswith("_forward_") and "(" in name]
        source += "".join(
            f"\n{'ModelNew.' + name} = torch.compile(ModelNew.{name}, dynamic=False)\n"
            for name in dict.fromkeys(method.partition("(")[0] for method in methods)
        )
    return Candidate(
        source=source, target=target, role="generator" if kernels or not is_compiled else COMPILER
    )


def print_compiled(task: Task, target: TargetName) -> Candidate | None:
    """Return torch.compile of a task's module as it is; None where the module cannot be exported."""
    try:
        return print_model(task, {}, target, is_compiled=True)
    except (CaptureError, LoweringError):
        return None


def _with_blocks(program: Program, helpers: Mapping[str, tuple[str, str]]) -> Program:
    """Return a program whose custom operators are functions of its file."""
    found: set[str] = set()
    steps = []
    for step in program.steps:
        if isinstance(step, Call) and step.target.startswith("torch.ops.kernelwright."):
            digest = step.target.removesuffix(".default").rpartition("_")[2]
            if digest not in helpers:  # one of several operators of a kernel
                raise LoweringError("a block is called with several plain values or structures")
            name, helper = helpers[digest]
            found.add(digest)
            step = replace(step, target=name, helper=helper)
        steps.append(step)
    missing = set(helpers) - found
    if missing:
        raise LoweringError(
            f"{len(missing)} of {len(helpers)} kernels are not in the exported graph: their guards do not "
            "hold in the whole model"
        )
    return replace(program, steps=tuple(steps))


def _printed_of(kernel: VerifiedKernel) -> object:
    """Return everything of a kernel that is printed; attributes that its guards check are not."""
    contract = kernel.contract
    weights = tuple((path, weight.same_as) for path, weight in contract.weights.items())
    cases = tuple((case.inputs, case.outputs) for case in contract.cases)
    return kernel.program, weights, cases, bool(contract.parts[""].attributes.get("training", False))


def _helper(contract: Contract, program: str, name: str, is_compiled: bool) -> str:
    names = [path for path, weight in contract.weights.items() if weight.same_as is None]
    n_inputs = len(contract.cases[0].inputs)
    places = {path: n_inputs + position for position, path in enumerate(names)}
    positions = [(path, places[weight.same_as or path]) for path, weight in contract.weights.items()]
    is_training = bool(contract.parts[""].attributes.get("training", False))
    text = nested(program, name, n_inputs=n_inputs, positions=positions, is_training=is_training)
    if not is_compiled:
        return text
    n_outputs = len(contract.cases[0].outputs)
    arguments = ", ".join(f"Tensor x{i}" for i in range(n_inputs + len(names)))
    result = "Tensor" if n_outputs == 1 else f"({', '.join(['Tensor'] * n_outputs)})"
    cases = [
        ([i.shape for i in case.inputs], [(o.shape, o.stride, o.dtype) for o in case.outputs])
        for case in contract.cases_of(0)
    ]
    operator = _OPERATOR.format(
        name=name,
        cases=cases,
        n_inputs=n_inputs,
        operator=name.lstrip("_"),
        schema=f"({arguments}) -> {result}",
    )
    return f"{text}\n\n\n{operator.strip()}"


def _with_shared(source: str, shared: str) -> str:
    """Put what all kernels need behind the file's docstring."""
    if not shared:
        return source
    before, found, after = source.partition("\nfrom torch import nn\n")
    return f"{before}{found}\n{shared}\n{after}"
