"""The task under examination: its reference, drawn inputs and weights, and the outputs on them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from kernelwright.core.task import Task, TolerancePolicy, Workload
from kernelwright.referee.checks.tolerance import ExpectedOutput
from kernelwright.referee.checkup.acceptance import expect
from kernelwright.referee.checkup.trial import State, Tensors, Trial
from kernelwright.referee.host.float64_oracle import call_double, double_of
from kernelwright.referee.host.input_distributions import change_inputs
from kernelwright.referee.host.weight_draws import change_state
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace

OWN = 3
"""Number of draws of the task's own inputs."""
FAMILIES = (("negated", 0), ("scaled", 0), ("sparse_spikes", 0), ("heavy_tail", 0))
"""Input distributions for changed inputs, with variant; the referee judges candidates on the same ones."""


class CheckedTask:
    """A reference with everything that the checks need from it, computed when a check first asks.

    All draws come from one secret seed. Every run starts from given weights and a given random state, so that
    runs differ only in what a check changes.
    """

    def __init__(self, task: Task, workload: Workload, seed: int) -> None:
        self.task, self.workload = task, workload
        self._seeds = torch.Generator().manual_seed(seed)
        self.namespace = load_namespace(task, workload)
        self.run_seed = self.new_seed()
        self._loaded: State | None = None
        self._double: tuple[State, nn.Module] | None = None

    def new_seed(self) -> int:
        """Return the next secret seed."""
        return int(torch.randint(1 << 31, (1,), generator=self._seeds))

    @cached_property
    def model(self) -> nn.Module:
        """The one module that all weights are loaded into; raises TaskError."""
        return construct_model(self.task, self.namespace, self.new_seed())

    @cached_property
    def parameters(self) -> frozenset[str]:
        """State-dict names of parameters."""
        return frozenset(name for name, _ in self.model.named_parameters(remove_duplicate=False))

    @cached_property
    def weights(self) -> State:
        """The weights after construction."""
        return {name: value.detach().clone() for name, value in state_of(self.model).items()}

    @cached_property
    def changed_weights(self) -> State | None:
        """Weights moved away from their initial values; None when the reference is not finite on them."""
        for style in ("signed", "positive"):
            state = self.moved_weights(style, list(self.weights))
            if all(torch.isfinite(x).all() for x in self.run(self.own[0].inputs, state) if _is_float(x)):
                return state
        return None

    def moved_weights(self, style: str, names: Sequence[str], base: State | None = None) -> State:
        """Return a copy of weights with some parameters and buffers drawn again."""
        generator = torch.Generator().manual_seed(self.new_seed())
        state = {name: value.clone() for name, value in (base or self.weights).items()}
        for name in names:
            if _is_float(state[name]):
                change_state(state[name], name in self.parameters, style, generator)
        return state

    def draw(self, family: str = "as_is", variant: int = 0) -> list[Any]:
        """Draw inputs under a fresh seed and change them to an input distribution."""
        values = clone(draw_inputs(self.task, self.namespace, self.new_seed()))
        generator = torch.Generator().manual_seed(self.new_seed())
        for tensor in tensors_in(values):
            if tensor.is_floating_point():
                change_inputs(tensor, family, variant, generator)
        return values

    @cached_property
    def own(self) -> tuple[Trial, ...]:
        """Trials on the task's own inputs and the constructor's weights, as they are timed."""
        return tuple(self.make_trial("own", self.draw(), self.weights) for _ in range(OWN))

    @cached_property
    def families(self) -> tuple[Trial, ...]:
        """Trials on changed inputs and the constructor's weights, including those that are not finite."""
        if not any(_is_float(x) for x in tensors_in(self.own[0].inputs)):
            return ()
        found = []
        for family, variant in FAMILIES:
            label = family.replace("_", " ")
            found.append(self.make_trial(label, self.draw(family, variant), self.weights))
        return tuple(found)

    @cached_property
    def judged(self) -> tuple[Trial, ...]:
        """Every trial on the constructor's weights that can be judged: own inputs and changed ones."""
        return (*self.own, *(trial for trial in self.families if trial.is_finite))

    @cached_property
    def reweighted(self) -> tuple[Trial, ...]:
        """A trial on own inputs and changed weights; empty when there are no finite ones."""
        if self.changed_weights is None or not self.changed_weights:
            return ()
        trial = self.make_trial("changed weights", self.draw(), self.changed_weights)
        return (trial,) if trial.is_finite else ()

    def make_trial(self, label: str, inputs: list[Any], state: State) -> Trial:
        """Run reference and oracle."""
        outputs = self.run(inputs, state)
        truth = self.run_truth(inputs, state)
        return Trial(label, inputs, state, outputs, truth, self._expected(inputs, outputs, truth))

    def _expected(self, inputs: list[Any], outputs: Tensors, truth: Tensors) -> tuple[ExpectedOutput, ...]:
        n_in = sum(x.numel() for x in [*tensors_in(inputs), *self.weights.values()])
        # Always the default policy, whatever the task says: "strict" in the messages means this one.
        return tuple(
            expect(one, other, TolerancePolicy.STRICT, n_in / max(one.numel(), 1))
            for one, other in zip(outputs, truth, strict=True)
        )

    def run(
        self,
        inputs: list[Any],
        state: State,
        mode: AbstractContextManager[Any] | None = None,
        seed: int | None = None,
    ) -> Tensors:
        """Call the reference on copies of inputs and weights, under a mode; returns its outputs."""
        self.load(state)
        args = clone(inputs)
        torch.manual_seed(self.run_seed if seed is None else seed)
        with mode or nullcontext():
            result = self.model(*args)
        return outputs_of(result)

    def rerun(self, trial: Trial, mode: AbstractContextManager[Any]) -> Tensors:
        """Call the reference on a trial's inputs and weights under a mode."""
        return self.run(trial.inputs, trial.state, mode)

    def run_truth(self, inputs: list[Any], state: State) -> Tensors:
        """Call the float64 reference."""
        if self._double is None or self._double[0] is not state:
            self.load(state)
            self._double = (state, double_of(self.model))
        double = self._double[1]
        own = state_of(double)
        for name in own.keys() - self.parameters:
            own[name].copy_(state[name])
        torch.manual_seed(self.run_seed)
        return outputs_of(call_double(double, inputs))

    def load(self, state: State) -> None:
        """Load weights into the module; parameters that are loaded already are not copied again."""
        own = state_of(self.model)
        for name in own if self._loaded is not state else own.keys() - self.parameters:
            own[name].copy_(state[name])
        self._loaded = state

    @cached_property
    def has_changing_inputs(self) -> bool:
        """True when own inputs differ from draw to draw."""
        first, second = (tensors_in(trial.inputs) for trial in self.own[:2])
        return any(not torch.equal(a, b) for a, b in zip(first, second, strict=True))

    @cached_property
    def facts(self) -> dict[str, bool]:
        """Facts that earlier checks found and later ones need, by name."""
        return {}


def clone(values: list[Any]) -> list[Any]:
    """Copy every tensor in nested lists, tuples and dicts."""
    leaves, spec = tree_flatten(values)
    copied = [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in leaves]
    return list(tree_unflatten(copied, spec))


def tensors_in(values: Any) -> Tensors:
    """Return the tensors of nested lists, tuples and dicts in order."""
    return [x for x in tree_flatten(values)[0] if isinstance(x, torch.Tensor)]


def replaced(values: list[Any], position: int, change: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
    """Return copies of inputs with one tensor changed; ``position`` counts as in ``tensors_in``."""
    leaves, spec = tree_flatten(values)
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    leaves = [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves]
    leaves[places[position]] = change(leaves[places[position]])
    return list(tree_unflatten(leaves, spec))


def outputs_of(result: Any) -> Tensors:
    """Return outputs as a list of copies."""
    values = result if isinstance(result, list | tuple) else [result]
    return [value.detach().clone() for value in values]


def state_of(model: nn.Module) -> State:
    """Return a module's parameters and persistent buffers by name, not copied."""
    return {k: v for k, v in model.state_dict(keep_vars=True).items() if isinstance(v, torch.Tensor)}


def _is_float(x: torch.Tensor) -> bool:
    return x.is_floating_point()
