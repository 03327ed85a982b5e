"""Can the task be judged at all: does it run, are its shapes fixed, does it leave its inputs unchanged?"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checkup.subject import CheckedTask, clone, tensors_in
from kernelwright.referee.host.float64_oracle import run_in_double
from kernelwright.tasks.namespace import draw_inputs


def check_contract(subject: CheckedTask) -> Iterator[Flag]:
    """Yield unusable flags for a task on which no other check can be carried out."""
    drawn = [draw_inputs(subject.task, subject.namespace, subject.new_seed()) for _ in range(3)]
    if changed := _changed_form([_form(values) for values in drawn]):
        yield _unusable("changing-shapes", changed, "fix the sizes; make other sizes workloads of their own")
        return
    subject.load(subject.weights)
    torch.manual_seed(subject.run_seed)
    args = clone(drawn[0])
    try:
        result = subject.model(*args)
    except Exception as error:  # the user's own forward
        says = f"the reference raises {type(error).__name__}: {_first_line(error)}"
        yield _unusable("raises", says, "correct the file, or check it at other sizes")
        return
    values = result if isinstance(result, list | tuple) else [result]
    if not values or any(type(value) is not torch.Tensor for value in values):
        kinds = ", ".join(type(value).__name__ for value in values) or "nothing"
        yield _unusable("no-tensor", f"the reference returns {kinds}", "return one or more tensors")
        return
    yield from _written_inputs(drawn[0], args)
    yield from _float64(subject, drawn[0])
    yield from _cast_inputs(subject, drawn[0])


def _written_inputs(before: list[Any], after: list[Any]) -> Iterator[Flag]:
    pairs = enumerate(zip(tensors_in(before), tensors_in(after), strict=True))
    written = [i for i, (a, b) in pairs if not torch.equal(a, b) and not a.isnan().any()]
    if written:
        names = ", ".join(f"input {i}" for i in written)
        yield _unusable(
            "writes-inputs",
            f"the reference writes to {names}: a second call on the same tensors computes something else",
            "clone the input in forward, or return the new value instead",
        )


def _float64(subject: CheckedTask, inputs: list[Any]) -> Iterator[Flag]:
    subject.load(subject.weights)
    try:
        run_in_double(subject.model, inputs)
    except Exception as error:  # the user's own forward, with tensors of another dtype
        yield _unusable(
            "no-float64",
            f"the reference cannot run in float64, so there is no oracle: {_first_line(error)}",
            "remove fixed dtypes such as .float() or dtype=torch.float32 from forward",
        )


def _cast_inputs(subject: CheckedTask, inputs: list[Any]) -> Iterator[Flag]:
    """Flag a task that fails under KernelBench, which casts every input to float32."""
    if all(x.is_floating_point() for x in tensors_in(inputs)):
        return
    subject.load(subject.weights)
    cast = [x.to(torch.float32) if isinstance(x, torch.Tensor) else x for x in clone(inputs)]
    try:
        subject.model(*cast)
    except Exception as error:  # the user's own forward, with tensors of another dtype
        yield Flag(
            check="integer-inputs",
            severity=Severity.NOTE,
            says="unsolvable in KernelBench, which casts every input to float32: the reference then raises "
            f"{_first_line(error)}",
            advice="nothing to do: inputs keep their dtype here, but KernelBench's figures mean nothing",
        )


def _form(values: list[Any]) -> list[Any]:
    return [
        (str(x.dtype), tuple(x.shape)) if isinstance(x, torch.Tensor) else x for x in tree_flatten(values)[0]
    ]


def _changed_form(forms: list[list[Any]]) -> str | None:
    for other in forms[1:]:
        if len(other) != len(forms[0]):
            return f"get_inputs() returns {len(forms[0])} values, then {len(other)}"
        for i, (a, b) in enumerate(zip(forms[0], other, strict=True)):
            if a != b:
                return f"get_inputs() returns {a} as value {i}, then {b}"
    return None


def _unusable(check: str, says: str, advice: str) -> Flag:
    return Flag(check=check, severity=Severity.UNUSABLE, says=says, advice=advice)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).partition("\n")[0][:160]
