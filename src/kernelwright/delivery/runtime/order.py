"""Where a forward may go by the order in which a module holds parameters, buffers and submodules."""

from torch import nn

from .classes import names_run

HOLDERS = ("_parameters", "_buffers", "_modules")
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
WORDS = frozenset({*HOLDERS, "state_dict"}).union(
    *({word, f"named_{word}"} for word in ("children", "modules", "parameters", "buffers"))
)
"""Names with which code goes through what a module holds, and what its submodules hold."""


def order_of(part: nn.Module) -> dict[str, tuple[str, ...]]:
    """Return the names of what a submodule holds, by where; None, which no loop meets, is left out."""
    return {
        holder: tuple(name for name, value in vars(part)[holder].items() if value is not None)
        for holder in HOLDERS
    }


def ordered_parts(module: nn.Module) -> set[int]:
    """Return the identities of the submodules whose order may matter.

    Those are containers, and everything inside a module whose class speaks of such loops. Elsewhere
    ``torch.nn.utils.prune.remove`` and others may put a parameter behind the rest.
    """
    found = set[int]()
    for part in module.modules():
        kind: type = type(part)
        if names_run(kind) & WORDS:
            found.update(map(id, part.modules()))
        elif isinstance(part, CONTAINERS):
            found.add(id(part))
    return found
