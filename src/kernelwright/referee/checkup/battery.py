"""The checks in their order. Later checks use facts that earlier ones found."""

from collections.abc import Callable, Iterable

from kernelwright.core.checkup import Flag
from kernelwright.core.errors import TaskError
from kernelwright.referee.checkup.algebra import check_algebra
from kernelwright.referee.checkup.collapse import check_collapse
from kernelwright.referee.checkup.contract import check_contract
from kernelwright.referee.checkup.deadness import check_deadness
from kernelwright.referee.checkup.finiteness import check_finiteness
from kernelwright.referee.checkup.precision import check_precision
from kernelwright.referee.checkup.redundancy import check_redundancy
from kernelwright.referee.checkup.repeatability import check_repeatability
from kernelwright.referee.checkup.smallness import check_smallness
from kernelwright.referee.checkup.subject import CheckedTask
from kernelwright.referee.checkup.triviality import check_triviality

CHECKS: dict[str, Callable[[CheckedTask], Iterable[Flag]]] = {
    "contract": check_contract,
    "finiteness": check_finiteness,
    "repeatability": check_repeatability,
    "triviality": check_triviality,
    "deadness": check_deadness,
    "precision": check_precision,
    "collapse": check_collapse,
    "redundancy": check_redundancy,
    "algebra": check_algebra,
    "smallness": check_smallness,
}


def run_check(name: str, subject: CheckedTask) -> list[Flag]:
    """Carry out one check; raises TaskError when the reference fails at it."""
    try:
        at = {"workload": subject.workload.name}
        return [flag.model_copy(update=at) for flag in CHECKS[name](subject)]
    except NotImplementedError as error:
        where = f"{subject.task.name}: check {name!r}"
        raise TaskError(f"{where} met an operator it cannot follow: {error}") from error
