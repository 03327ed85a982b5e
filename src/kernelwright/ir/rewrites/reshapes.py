"""How dims correspond across a reshape."""

from collections.abc import Sequence


def groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Cut both shapes into the shortest runs of dims with equal numbers of elements; sizes 1 left out."""
    left = [d for d, n in enumerate(before) if n != 1]
    right = [d for d, n in enumerate(after) if n != 1]
    found: list[tuple[list[int], list[int]]] = []
    while left or right:
        ins, outs = [left.pop(0)], [right.pop(0)]
        count_in, count_out = before[ins[0]], after[outs[0]]
        while count_in != count_out:
            if count_in < count_out:
                ins.append(left.pop(0))
                count_in *= before[ins[-1]]
            else:
                outs.append(right.pop(0))
                count_out *= after[outs[-1]]
        found.append((ins, outs))
    return found


def reduced_groups(
    before: Sequence[int], after: Sequence[int], dims: frozenset[int]
) -> frozenset[int] | None:
    """Dims before a reshape that are covered by ``dims`` after it; None where they cut through a group."""
    if 0 in before:
        return None
    covered: set[int] = set()
    for ins, outs in groups(before, after):
        hit = dims.intersection(outs)
        if hit and len(hit) != len(outs):
            return None
        if hit:
            covered.update(ins)
    return frozenset(covered)
