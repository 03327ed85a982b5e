"""Changes tensors as a whole: parameters become zero, small or like each other, buffers get other signs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from kernelwright.referee.host.odd_rows import nearly
from kernelwright.referee.host.weight_draws import TINY, change_state

Change = Callable[[Sequence[torch.Tensor], torch.Generator], None]
LARGER = 4.0
"""How much larger parameters are that are nearly alike: what cancels then leaves larger roundings."""


def shrink(
    parameters: Sequence[torch.Tensor], generator: torch.Generator, *, share: float, factor: float = 0.0
) -> None:
    """Multiply so many of the parameters, at least one, by a factor."""
    n = max(round(share * len(parameters)), 1)
    for i in torch.randperm(len(parameters), generator=generator)[:n].tolist():
        parameters[i].mul_(factor)


def sign(buffers: Mapping[str, torch.Tensor], generator: torch.Generator, *, without: int | None) -> None:
    """Change the sign of about half of the elements, or of the only one, in buffers.

    Those whose last name is the one of the number ``without`` stay: a variance has no other sign.
    """
    last = {name: name.rpartition(".")[2] for name in buffers}
    names = sorted(set(last.values()))
    left = "" if without is None or without >= len(names) else names[without]
    for name, x in buffers.items():
        if last[name] != left:
            is_other = torch.rand(x.shape, generator=generator) < (0.5 if x.numel() > 1 else 1.0)
            x.copy_(torch.where(is_other, -x, x))


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
    "all_zero": partial(shrink, share=1.0),
    "half_zero": partial(shrink, share=0.5),
    "one_zero": partial(shrink, share=0.0),
    "small": partial(shrink, share=1.0, factor=TINY),
    "alike_large": partial(make_alike, factor=LARGER),
    "alike": partial(make_alike, factor=1.0),
}
"""Style of weights -> how parameters are changed."""
SIGNED: Mapping[str, int | None] = {"signed": None, **{f"signed but {n}": n for n in range(8)}}
"""Style of weights -> which buffers keep their signs; see ``sign``."""
