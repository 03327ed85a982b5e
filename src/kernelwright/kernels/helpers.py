"""Functions of torch alone that rewrites put into a graph; candidates carry their source.

Each stands by itself: it may use nothing but torch and its own arguments.
"""

import torch


def tap_sums(x: torch.Tensor, dim: int, ranges: tuple[tuple[int, int, int], ...]) -> torch.Tensor:
    """Sum slices ``start:stop:step`` of one dimension; the dimension then counts the slices.

    With step 1 the part that all slices share is summed once and the borders are added to it.
    """
    start = max(first for first, _, _ in ranges)
    stop = min(last for _, last, _ in ranges)
    if stop <= start or any(step != 1 for _, _, step in ranges):
        index = [slice(None)] * dim
        return torch.stack([x[(*index, slice(*one))].sum(dim) for one in ranges], dim)
    shared = x.narrow(dim, start, stop - start).sum(dim)
    sums = []
    for first, last, _ in ranges:
        total = shared
        if first < start:
            total = total + x.narrow(dim, first, start - first).sum(dim)
        if last > stop:
            total = total + x.narrow(dim, stop, last - stop).sum(dim)
        sums.append(total)
    return torch.stack(sums, dim)
