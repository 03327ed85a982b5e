"""The arguments of a region's generated function, whatever language it is in."""

from dataclasses import dataclass

from kernelwright.ir.dag import Dag
from kernelwright.ir.program import DType, Region
from kernelwright.ir.text import Names


@dataclass(frozen=True)
class Argument:
    """One buffer that a generated function reads or writes."""

    buffer: str
    name: str
    """The buffer's name as an identifier: letters, digits and underscores."""
    dtype: DType
    is_written: bool


def signature(region: Region) -> tuple[Argument, ...]:
    """Return the arguments in order: buffers that are read, as first met, then those only written."""
    dag = Dag(region)
    actions = [action for group in dag.groups for action in group.actions]
    written = {a.store.buffer: a.stage.dtype for a in actions if a.store is not None}
    used = dag.needed([a.node for a in actions])
    loads = [dag.nodes[n] for n in sorted(used) if dag.nodes[n].kind == "load"]
    dtypes: dict[str, DType] = {}
    for node in loads:
        dtypes.setdefault(node.name, node.dtype)
    for buffer, dtype in written.items():
        dtypes.setdefault(buffer, dtype)
    names = Names([region.name])
    return tuple(Argument(b, names.new(b), d, b in written) for b, d in dtypes.items())
