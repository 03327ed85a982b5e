"""Attributes that only a description tells: described once, and anew when what they refer to was replaced."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import nn

from .contract import names_of, parts_of
from .described import description_of

Place: TypeAlias = tuple[str | None, str | None]
"""Under which name a module has a tensor, under which path a submodule; None where it has not."""


@dataclass(frozen=True)
class Pin:
    """An attribute that is as described, while the module has what the attribute refers to where it was."""

    value: Any
    places: dict[int, Place]
    """Of the tensors and modules in it, by identity."""


Pinned: TypeAlias = MutableMapping[tuple[str, str], Pin]
"""By path of the submodule and name."""


class Whereabouts:
    """Where a module has its weights and submodules."""

    def __init__(self, module: nn.Module) -> None:
        self._names = names_of(module)
        self._paths = {id(part): path for path, part in parts_of(module)}

    def _of(self, identity: int) -> Place:
        return self._names.get(identity), self._paths.get(identity)

    def _are_places(self, places: dict[int, Place]) -> bool:
        return all(self._of(identity) == place for identity, place in places.items())

    def has_described(self, path: str, name: str, value: Any, description: str, pinned: Pinned) -> bool:
        """Say whether an attribute of a submodule is as described; one that is gets pinned."""
        pin = pinned.get((path, name))
        if pin is not None and pin.value is value and self._are_places(pin.places):
            return True
        met: set[int] = set()
        if not description or description_of(value, self._names, met) != description:
            return False
        pinned[path, name] = Pin(value, {identity: self._of(identity) for identity in met})
        return True


def referred_to(pinned: Pinned) -> set[int]:
    """Return the identities of the module's own tensors and submodules that such attributes refer to."""
    places = {identity: place for pin in list(pinned.values()) for identity, place in pin.places.items()}
    return {identity for identity, place in places.items() if place != (None, None)}
