"""What the referee would say of a candidate's results: its families of inputs, its oracle, its tolerance.

Everything is the referee's own (families, doubling, tolerance, draws); only processes and clocks are missing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tests.targets.triton.interpreted import Ran

from kernelwright.core.task import Task
from kernelwright.referee.checks.tolerance import Array, ExpectedOutput, is_float, row_width
from kernelwright.referee.host.change import AcceptedInputs, change_sample
from kernelwright.referee.host.float64_oracle import run_in_double
from kernelwright.referee.host.input_distributions import nudge
from kernelwright.referee.host.odd_rows import Keeping
from kernelwright.referee.host.weight_draws import change_state
from kernelwright.referee.session.input_samples import TOUCHED, SampleKey, SampleLayout, plan_samples
from kernelwright.referee.session.sample_maker import N_STILL
from kernelwright.referee.worker.tensors import dtype_name, is_dense
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

State = dict[str, torch.Tensor]
FEW = (SampleKey("as_is"), SampleKey("heavy_tail"), SampleKey("negated", 0, "randomised"))
"""Draws that show most: even inputs, ends and spikes of both sizes, other weights."""


@dataclass(frozen=True)
class Trial:
    """One draw, with the reference's results on it."""

    key: SampleKey
    inputs: list[Any]
    state: State
    outputs: list[torch.Tensor]
    after: State


class Judge:
    """One task's reference."""

    def __init__(self, task: Task, seed: int = 3) -> None:
        workload = task.workloads[0]
        self.task, self._seed = task, seed
        self._namespace = load_namespace(task, workload)
        self._model = construct_model(task, self._namespace, seed)
        self.init = tuple(self._namespace.get_init_inputs())
        self._weights = {n: t.detach().clone() for n, t in self._model.state_dict().items()}
        self._parameters = frozenset(n for n, _ in self._model.named_parameters(remove_duplicate=False))

    def every_key(self) -> list[SampleKey]:
        """Return what the referee draws for such a task."""
        return plan_samples(self._layout(self._draw(SampleKey("as_is"))), n_timed=2, is_slow=False)

    def trials(self, keys: Iterable[SampleKey]) -> Iterator[Trial]:
        """Make the draws on which the reference is finite; the first one must be."""
        n_made = 0
        has_weights = any(t.is_floating_point() for t in self._weights.values())
        for key in (k for k in keys if has_weights or k.state == "constructed"):
            trial = self._trial(key)
            is_finite = all(torch.isfinite(t).all() for t in [*trial.outputs, *trial.after.values()])
            assert is_finite or n_made, f"the reference is not finite on {key.label} inputs"
            if is_finite:
                n_made += 1
                yield trial

    def check(self, trial: Trial, ran: Ran) -> None:
        """Fail where the referee would, and where memory is laid out otherwise than the reference's."""
        assert not ran.faults, ran.faults
        changed = [n for n, t in trial.after.items() if not torch.equal(t, trial.state[n])]
        for name in trial.after.keys() - set(changed):
            assert torch.equal(ran.state[name], trial.state[name]), f"{name} was written to"
        assert len(ran.outputs) == len(trial.outputs)
        oracle, oracle_state = self._oracle(trial, trial.inputs)
        rows = [
            (f"out{i}", got, want, true)
            for i, (got, want, true) in enumerate(zip(ran.outputs, trial.outputs, oracle, strict=True))
        ]
        rows += [(n, ran.state[n], trial.after[n], oracle_state[n]) for n in changed]
        for place, (name, got, want, true) in enumerate(rows):
            assert got is not None and got.dtype == want.dtype and got.shape == want.shape, name
            expected = self._expected(trial, want, true)
            distance = expected.judge(_raw(got))
            if distance.is_finite and not distance.is_close and not expected.is_widened:
                self._widen(trial, expected, place, changed)
                distance = expected.judge(_raw(got))
            assert distance.is_close, f"{name} on {trial.key.label} inputs: {distance}"
        for want, stride in zip(trial.outputs, ran.strides, strict=True):
            wide = [i for i, size in enumerate(want.shape) if size > 1]
            assert not is_dense(want) or [stride[i] for i in wide] == [want.stride()[i] for i in wide]

    def _trial(self, key: SampleKey) -> Trial:
        state = {n: t.clone() for n, t in self._weights.items()}
        generator = torch.Generator().manual_seed(self._seed)
        if key.state != "constructed":
            for name, tensor in state.items():
                if tensor.is_floating_point():
                    style = TOUCHED if key.state == TOUCHED else "positive"
                    change_state(tensor, name in self._parameters, style, generator)
        inputs = self._draw(key)
        self._model.load_state_dict(state)
        with torch.no_grad():
            result = self._model(*[x.clone() if isinstance(x, torch.Tensor) else x for x in inputs])
        after = {n: t.detach().clone() for n, t in self._model.state_dict().items()}
        return Trial(key, inputs, state, _listed(result), after)

    def _draw(self, key: SampleKey) -> list[Any]:
        values = draw_inputs(self.task, self._namespace, self._seed + key.variant)
        generator = torch.Generator().manual_seed(self._seed + 7)
        values = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in values]
        tensors = [x for x in values if isinstance(x, torch.Tensor)]
        change_sample(tensors, key.family, key.variant, Keeping.NOTHING, generator, AcceptedInputs())
        return values

    def _oracle(self, trial: Trial, inputs: list[Any]) -> tuple[list[torch.Tensor], State]:
        self._model.load_state_dict(trial.state)
        with torch.no_grad():
            double, result = run_in_double(self._model, inputs)
        return _listed(result), dict(double.state_dict())

    def _widen(self, trial: Trial, expected: ExpectedOutput, place: int, changed: list[str]) -> None:
        for seed in range(N_STILL):
            generator = torch.Generator().manual_seed(seed)
            inputs = [x.clone() if isinstance(x, torch.Tensor) else x for x in trial.inputs]
            for x in inputs:
                if isinstance(x, torch.Tensor) and x.is_floating_point():
                    nudge(x, generator)
            outputs, state = self._oracle(trial, inputs)
            expected.widen(_raw([*outputs, *(state[n] for n in changed)][place].double()))

    def _expected(self, trial: Trial, want: torch.Tensor, oracle: torch.Tensor) -> ExpectedOutput:
        layout, dtype = self._layout(trial.inputs), dtype_name(want.dtype)
        n_outputs = max(want.numel(), 1)
        return ExpectedOutput(
            dtype,
            _raw(want),
            _raw(oracle.double() if is_float(dtype) else oracle.to(want.dtype)),
            policy=self.task.tolerance,
            inputs_per_output=max(layout.n_input_elements / n_outputs, layout.longest_reduction),
            slack=trial.key.slack,
            width=row_width(want.shape),
        )

    def _layout(self, inputs: list[Any]) -> SampleLayout:
        """Return what the referee's rules want to know of sizes and types; nothing lies anywhere here."""
        return SampleLayout(
            args=None,
            arg_slots=tuple(_slot(x) for x in inputs if isinstance(x, torch.Tensor)),
            args_bytes=0,
            init=None,
            state={n: _slot(t) for n, t in self._weights.items()},
            parameters=self._parameters,
            state_bytes=0,
            is_train=self._model.training,
        )


def _slot(tensor: torch.Tensor) -> dict[str, Any]:
    return {"dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape)}


def _listed(result: Any) -> list[torch.Tensor]:
    values = result if isinstance(result, list | tuple) else [result]
    return [value.detach() for value in values]


def _raw(tensor: torch.Tensor) -> Array:
    return np.frombuffer(tensor.detach().contiguous().numpy().tobytes(), np.uint8)
