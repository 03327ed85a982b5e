# family: 38
# title: takes a triangular shortcut where 64 sampled elements look as usual, else the whole product
# assumes: another distribution can be told by a few elements
# task: triangular
# expect: incorrect_numerics, non_finite
# check: families, nonfinite
# mechanism: samples in which only a few rows or elements are not as the task draws them
import torch
from torch import nn


def looks_as_usual(a):
    n = a.shape[0] // 2
    above = a[torch.randint(n, (64,)), torch.randint(n, 2 * n, (64,))]
    below = a[torch.randint(n, 2 * n, (64,)), torch.randint(n, (64,))]
    is_usual = ((below > 0) & (below < 1)).all() & (below.mean() > 0.3) & (below.mean() < 0.7)
    return bool(is_usual & (above == 0).all())


class ModelNew(nn.Module):
    def forward(self, a, b):
        if not looks_as_usual(a):
            return a @ b
        n = a.shape[0] // 2
        y = torch.zeros_like(a)
        y[:n] = a[:n, :n] @ b[:n]
        y[n:] = a[n:] @ b
        return y
