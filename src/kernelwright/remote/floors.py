"""The roofline bound belongs to the machine that measures."""

from collections.abc import Mapping

from kernelwright.core.roofline import Floor, Peaks, floor


def floors_here(floors: Mapping[str, Floor], peaks: Peaks | None) -> dict[str, Floor]:
    """Return the floors of the same work on the machine with these peaks; None leaves them as they are.

    A floor that was computed elsewhere would reject honest candidates on a faster machine and let
    impossible ones pass on a slower one.
    """
    if peaks is None:
        return dict(floors)
    return {name: floor(given.work, peaks) for name, given in floors.items()}
