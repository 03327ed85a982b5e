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


def triangular_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    left: tuple[bool, int] | None,
    right: tuple[bool, int] | None,
    keep: tuple[bool, int] | None,
) -> torch.Tensor:
    """Multiply matrices block by block, leaving out blocks that are zero or not wanted.

    ``(True, k)`` stands for a lower triangle, elements (i, j) with j - i <= k, ``(False, k)`` for an
    upper one, j - i >= k. ``left`` and ``right`` say where the operands are not zero, ``keep`` which
    part of the product is wanted; the rest of the result is zero.
    """
    n_rows, n_inner, n_columns = a.shape[0], a.shape[1], b.shape[1]
    tall = max(64, -(-n_rows // 8)) if left or keep else n_rows
    wide = max(64, -(-n_columns // 8)) if right else n_columns
    out = a.new_zeros(n_rows, n_columns)
    for top in range(0, n_rows, tall):
        bottom = min(top + tall, n_rows)
        for start in range(0, n_columns, wide):
            first, last = start, min(start + wide, n_columns)
            if keep:
                lower, k = keep
                first, last = (first, min(last, bottom + k)) if lower else (max(first, top + k), last)
            low, high = 0, n_inner
            if left:
                lower, k = left
                low, high = (low, min(high, bottom + k)) if lower else (max(low, top + k), high)
            if right:
                lower, k = right
                low, high = (max(low, first - k), high) if lower else (low, min(high, last - k))
            if first >= last or low >= high:
                continue
            block = torch.mm(a[top:bottom, low:high], b[low:high, first:last])
            if keep:
                lower, k = keep
                block = block.tril(k + top - first) if lower else block.triu(k + top - first)
            out[top:bottom, first:last] = block
    return out


def gram_matrix(x: torch.Tensor) -> torch.Tensor:
    """Return ``x @ x.transpose(-1, -2)``: three quarters of it, and the last one mirrored."""
    n = x.shape[-2]
    half = -(-n // 2)
    out = x.new_empty(*x.shape[:-1], n)
    for rows in (slice(0, half), slice(half, n)):
        out[..., rows, rows] = torch.matmul(x[..., rows, :], x[..., rows, :].transpose(-1, -2))
    block = torch.matmul(x[..., :half, :], x[..., half:, :].transpose(-1, -2))
    out[..., :half, half:] = block
    out[..., half:, :half] = block.transpose(-1, -2)
    return out


def onednn_matmul(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return ``a @ b + bias`` for float32 matrices by oneDNN instead of torch's default BLAS."""
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), bias, "none", [], "")
    return product


def pooled_window(weight: torch.Tensor, kernel: tuple[int, ...], stride: tuple[int, ...]) -> torch.Tensor:
    """Average a convolution's weight with copies of itself, shifted by the stride.

    ``[out, in, *window]`` becomes ``[out, in, *larger]``: the weight of the convolution followed by an
    average pool with that kernel, done as one convolution.
    """
    for dim, (size, step) in enumerate(zip(kernel, stride, strict=True), start=2):
        shape = list(weight.shape)
        shape[dim] += (size - 1) * step
        larger = weight.new_zeros(shape)
        for shift in range(size):
            larger.narrow(dim, shift * step, weight.shape[dim]).add_(weight, alpha=1.0 / size)
        weight = larger
    return weight


def unstrided_window(weight: torch.Tensor, stride: tuple[int, ...], padding: tuple[int, ...]) -> torch.Tensor:
    """Weight of the plain convolution that equals a transposed one followed by an average pool.

    Takes ``[in, out, *window]`` of a transposed convolution whose stride is the pool's kernel and
    stride, gives ``[out, in, *taps]`` with tap m meeting input q - last + m for pooled position q.
    """
    weight = weight.transpose(0, 1)
    for dim, (step, pad) in enumerate(zip(stride, padding, strict=True), start=2):
        size = weight.shape[dim]
        last, first = (size - 1 - pad) // step, -((step - 1 + pad) // step)
        taps = []
        for distance in range(last, first - 1, -1):  # pooled position minus input position
            begin = distance * step + pad
            inside = weight.narrow(dim, max(begin, 0), max(0, min(begin + step, size) - max(begin, 0)))
            taps.append(inside.sum(dim) / step)
        weight = torch.stack(taps, dim)
    return weight


def flipped_window(weight: torch.Tensor) -> torch.Tensor:
    """Weight of the plain convolution that equals a transposed one with stride 1 and one group."""
    return weight.transpose(0, 1).flip(tuple(range(2, weight.dim()))).contiguous()
