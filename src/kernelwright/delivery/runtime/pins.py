"""Attributes that only a description tells, and what of the module itself they refer to."""

from collections.abc import MutableMapping
from typing import Any, TypeAlias

from torch import nn

from .contract import names_of, parts_of
from .described import description_of

Place: TypeAlias = tuple[str | None, str | None]
"""Under which name a module has a tensor, under which path a submodule; None where it has not."""
Pinned: TypeAlias = MutableMapping[tuple[str, str], dict[int, Place]]
"""By path of the submodule and name of an attribute that was as described: the places of tensors and modules
in it, by identity."""


class Whereabouts:
    """Where a module has its weights and submodules."""

    def __init__(self, module: nn.Module) -> None:
        self._names = names_of(module)
        self._paths = {id(part): path for path, part in parts_of(module)}
        self._told: dict[int, tuple[str, set[int]]] = {}
        """By identity of an attribute's value, which several submodules may share."""

    def has_described(self, path: str, name: str, value: Any, description: str, pinned: Pinned) -> bool:
        """Say whether an attribute of a submodule is as described; one that is gets pinned."""
        if id(value) not in self._told:
            met: set[int] = set()
            self._told[id(value)] = description_of(value, self._names, met), met
        found, met = self._told[id(value)]
        if not description or found != description:
            return False
        pinned[path, name] = {i: (self._names.get(i), self._paths.get(i)) for i in met}
        return True


def referred_to(pinned: Pinned) -> set[int]:
    """Return the identities of the module's own tensors and submodules that such attributes refer to."""
    places = {identity: place for found in list(pinned.values()) for identity, place in found.items()}
    return {identity for identity, place in places.items() if place != (None, None)}
