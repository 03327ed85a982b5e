"""Changes all parameters together: they become zero as a whole, or like each other."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from kernelwright.referee.host.odd_rows import nearly
from kernelwright.referee.host.weight_draws import change_state

Change = Callable[[Sequence[torch.Tensor], torch.Generator], None]
LARGER = 4.0
"""How much larger parameters are that are nearly alike: what cancels then leaves larger roundings."""


def vanish(parameters: Sequence[torch.Tensor], generator: torch.Generator, *, share: float) -> None:
    """Make so many of the parameters zero everywhere, at least one."""
    n = max(round(share * len(parameters)), 1)
    for i in torch.randperm(len(parameters), generator=generator)[:n].tolist():
        parameters[i].zero_()


def make_alike(parameters: Sequence[torch.Tensor], generator: torch.Generator, *, factor: float) -> None:
    """Make parameters of one form nearly the same as the first of them, some of their rows equal.

    Parameters of one axis are taken element by element. What is constant as constructed is drawn anew before.
    """
    by_form: dict[tuple[torch.dtype, torch.Size], list[torch.Tensor]] = {}
    for x in parameters:
        by_form.setdefault((x.dtype, x.shape), []).append(x)
    for first, *others in by_form.values():
        if not others or not first.numel():
            continue
        if bool((first == first.reshape(-1)[0]).all()):
            change_state(first, True, "redrawn_positive", generator)
        first.mul_(factor)
        rows = first if first.ndim > 1 else first.reshape(-1, 1)
        for other in others:
            other.copy_(nearly(rows, generator).view(first.shape))


FLAT: Mapping[str, Change] = {
    "all_zero": partial(vanish, share=1.0),
    "half_zero": partial(vanish, share=0.5),
    "one_zero": partial(vanish, share=0.0),
    "alike_large": partial(make_alike, factor=LARGER),
    "alike": partial(make_alike, factor=1.0),
}
"""Style of weights -> how parameters are changed."""
