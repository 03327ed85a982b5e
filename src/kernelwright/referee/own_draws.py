"""The referee's kinds of draws with random seeds of one's own, for a process that no verdict comes from."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from kernelwright.core.policy import Nonfinite
from kernelwright.referee.host.acceptance import Asking, Questions
from kernelwright.referee.host.change import (
    NONFINITE,
    AcceptedInputs,
    as_float,
    change_sample,
)
from kernelwright.referee.host.float64_oracle import run_in_double
from kernelwright.referee.host.odd_rows import Keeping
from kernelwright.referee.host.weight_draws import change_state
from kernelwright.referee.worker.layouts import extent
from kernelwright.referee.worker.tensors import SlotLayout, compact, encode, with_tensors
from kernelwright.referee.worker.threads import one_thread
from kernelwright.targets.device import PROCESSOR

OWN_DRAW = 7919
"""Random seed of the first draw of a kind; the referee's seeds are secret and others."""
CONSTRUCTED, AS_IS = "constructed", "as_is"
State = dict[str, torch.Tensor]
Outputs = list[torch.Tensor]


class OwnDraws:
    """A reference beside which candidates are called, both on a device; ``draw`` gives its inputs.

    What is drawn and compared is in the processor's memory.
    """

    def __init__(self, reference: nn.Module, draw: Callable[[], Any], device: str = "cpu") -> None:
        self._reference, self._draw, self._device = reference, draw, device
        self._state: State = {name: value.cpu().clone() for name, value in reference.state_dict().items()}
        self._accepted: AcceptedInputs | None = None

    def outputs(
        self, candidate: nn.Module, family: str, variant: int, weights: str, turn: int
    ) -> tuple[Outputs, Outputs] | None:
        """Return a candidate's outputs and the reference's; None where there is no such draw here.

        Args:
            candidate: it is called first.
            family: the input distribution.
            variant: which of several like it.
            weights: ``CONSTRUCTED``, or a style of ``host/weight_draws.change_state``.
            turn: draws of one kind differ by it.
        """
        seed = OWN_DRAW + turn
        try:
            self._load(candidate, self._changed_state(weights, seed))
            for keeping in (Keeping.NOTHING,) if family == AS_IS else Keeping:
                found = self._inputs(family, variant, keeping, seed)
                expected = None if found is None else _outputs(self._reference, found())
                if found is None or expected is None:
                    continue
                if family == NONFINITE or all(bool(one.isfinite().all()) for one in expected):
                    return _outputs(candidate, found(), may_fail=False) or [], expected
            return None
        finally:
            self._load(candidate, self._state)

    def _inputs(self, family: str, variant: int, keeping: Keeping, seed: int) -> Callable[[], Any] | None:
        """Return what makes the inputs of a draw, each time anew; None where the family changes nothing."""
        torch.manual_seed(seed)
        values = self._draw()
        found: list[torch.Tensor] = []
        encode(values, SlotLayout(keeps_strides=True), found)
        drawn = [compact(x).contiguous() for x in found]
        changed = [x.clone() for x in drawn]
        if family != AS_IS:
            accepted = self._what_it_accepts(values, found, drawn)
            with one_thread():
                generator = torch.Generator().manual_seed(seed)
                change_sample([as_float(x) for x in changed], family, variant, keeping, generator, accepted)
            if all(map(torch.equal, changed, drawn)):
                return None
        return lambda: _put_together(values, found, changed, self._device)

    def _what_it_accepts(
        self, values: Any, found: list[torch.Tensor], drawn: list[torch.Tensor]
    ) -> AcceptedInputs:
        """Return what the reference accepts as inputs; it is asked once."""
        if self._accepted is None:

            def run(
                model: Callable[..., Any], tensors: list[torch.Tensor],
                tell: Callable[[list[torch.Tensor]], None] = lambda given: None,
            ) -> Outputs | None:  # fmt: skip
                given = _outputs(model, _put_together(values, found, tensors, self._device, tell))
                self._load(self._reference, self._state)
                return given

            def finite(given: Outputs | None) -> Outputs | None:
                is_finite = given is not None and all(bool(one.isfinite().all()) for one in given)
                return given if is_finite else None

            def double(*args: Any) -> Any:
                return run_in_double(self._reference, list(args))[1]

            asking = Asking(
                Questions(
                    run=lambda tensors: finite(run(self._reference, tensors)),
                    run_raw=lambda tensors: run(self._reference, tensors),
                    run_told=lambda tensors, tell: run(self._reference, tensors, tell),
                    run_double=lambda tensors: finite(run(double, tensors)),
                    values=drawn,
                    seed=OWN_DRAW,
                    is_on_gpu=self._device != PROCESSOR.torch_device,
                )
            )
            self._accepted = asking.answer(nonfinite=Nonfinite.AUTO)
        return self._accepted

    def _changed_state(self, weights: str, seed: int) -> State:
        """Return parameters and buffers of a style."""
        state = {name: value.clone() for name, value in self._state.items()}
        if weights != CONSTRUCTED:
            parameters = {name for name, _ in self._reference.named_parameters(remove_duplicate=False)}
            generator = torch.Generator().manual_seed(seed)
            for name, value in state.items():
                numbers = as_float(value)
                if numbers.is_floating_point():
                    change_state(numbers, name in parameters, weights, generator)
        return state

    def _load(self, candidate: nn.Module, state: State) -> None:
        for model in (self._reference, candidate):
            model.load_state_dict(state, strict=False)


def _put_together(
    values: Any, found: list[torch.Tensor], tensors: list[torch.Tensor], device: str,
    tell: Callable[[list[torch.Tensor]], None] = lambda given: None,
) -> Any:  # fmt: skip
    """Return inputs on a device with other values and the strides as drawn; ``tell`` is given these."""
    made = [_like(x, new).to(device) for x, new in zip(found, tensors, strict=True)]
    tell(made)
    return with_tensors(values, iter(made))


def _like(drawn: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    span = extent(drawn.shape, drawn.stride())
    tensor = torch.zeros(span, dtype=drawn.dtype).as_strided(drawn.shape, drawn.stride())
    compact(tensor).copy_(values)
    return tensor


def _outputs(model: Callable[..., Any], inputs: Any, *, may_fail: bool = True) -> Outputs | None:
    """Return the tensors that a model gives; None where it may refuse inputs, and does."""
    try:
        with torch.no_grad():
            given = model(*inputs)
    except Exception:  # the user's reference, on inputs that it may refuse
        if not may_fail:
            raise
        return None
    given = given if isinstance(given, tuple | list) else [given]
    return [x.cpu() for x in given if isinstance(x, torch.Tensor)]
