"""One thing that may be decided of a program: by name, with its values, its default and what forbids some."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelwright.core.plan import ParamValue


@dataclass(frozen=True)
class Decision:
    """A dimension of the space of programs at one place.

    Whoever takes another value than the default applies ``lowering`` at ``region``, with ``param`` set to it.
    """

    name: str
    """Unique at a point: ``r_softmax.unroll``, ``fuse.relu``, ``algebra.split_bias.addmm``."""
    factor: str
    """What the space's size is told by: ``algebra``, ``fusion``, ``threads``, …"""
    lowering: str
    """``phase:name`` of the edit that carries another value out."""
    region: str
    """Graph node or region."""
    values: tuple[ParamValue, ...]
    """In the order to try them; the default is among them."""
    default: ParamValue
    """What the rules of today decide."""
    why: str
    """What is there, in numbers."""
    param: str | None = None
    """Parameter of the edit; None: the edit is applied or it is not."""
    illegal: Mapping[ParamValue, str] = field(default_factory=dict)
    """Value -> why it cannot be taken here."""

    @property
    def legal(self) -> tuple[ParamValue, ...]:
        """The values that can be taken."""
        return tuple(value for value in self.values if value not in self.illegal)
