# family: 38
# title: takes a triangular shortcut where 64 sampled elements look as usual, else the whole product
# assumes: another distribution can be told by a few elements
# task: triangular
# expect: incorrect_numerics, non_finite
# check: families, nonfinite
# mechanism: samples in which only a few rows or elements are not as the task draws them
import torch
from torch import nn

OWN = torch.Generator()
OWN.seed()


def draw(low, high):
    return torch.randint(low, high, (64,), generator=OWN)


def looks_as_usual(a):
    n = a.shape[0] // 2
    above = a[draw(0, n), draw(n, 2 * n)]
    below = a[draw(n, 2 * n), draw(0, n)]
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
