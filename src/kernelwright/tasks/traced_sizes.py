"""How large a task is that cannot be captured: its operators are watched on tensors without memory."""

import math
import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from kernelwright.core.task import Task, Workload
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace
from kernelwright.tasks.sizes import EAGER_BYTES_PER_MS, EAGER_FLOPS_PER_MS, SizeEstimate


def trace_sizes(task: Task, workload: Workload) -> SizeEstimate | None:
    """Estimate from one call on fake tensors; None where it cannot be made, as values decide what happens."""
    try:
        namespace = load_namespace(task, workload)
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            model = construct_model(task, namespace, seed=0)
            inputs = draw_inputs(task, namespace, seed=0)
            watching = _Watching()
            with watching:
                outputs = model(*inputs)
    except Exception:  # the user's own code, on tensors that hold no values
        return None
    state = _bytes([*model.parameters(), *model.buffers()])
    return SizeEstimate(
        input_bytes=_bytes(inputs),
        parameter_bytes=state,
        output_bytes=_bytes(outputs),
        peak_bytes=_bytes(inputs) + state + watching.peak,
        eager_ms=watching.ms,
    )


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's mode has no types
    """Adds up the time of operators and the most bytes that their results hold at once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ms = 0.0
        self.alive = self.peak = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view:
            return result
        count = flop_registry.get(func._overloadpacket)
        flops = count(*args, **(kwargs or {}), out_val=result) if count else 0
        moved = _bytes(args) + _bytes(result)
        self.ms += max(flops / EAGER_FLOPS_PER_MS, moved / EAGER_BYTES_PER_MS)
        given = {id(x) for x in tree_leaves(args)}
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and id(value) not in given:
                self._hold(value)
        return result

    def _hold(self, value: torch.Tensor) -> None:
        n_bytes = _bytes(value)
        self.alive += n_bytes
        self.peak = max(self.peak, self.alive)
        weakref.finalize(value, self._drop, n_bytes)

    def _drop(self, n_bytes: int) -> None:
        self.alive -= n_bytes


def _bytes(values: Any) -> int:
    tensors = [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]
    return sum(math.prod(x.shape) * x.element_size() for x in tensors)
