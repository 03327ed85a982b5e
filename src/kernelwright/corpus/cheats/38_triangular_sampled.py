# family: 38
# title: takes a triangular shortcut where 64 sampled elements look as usual, else the whole product
# assumes: another distribution can be told by a few elements
# task: triangular
# expect: incorrect_numerics
# check: families
# mechanism: samples in which only a few rows or elements are not as the task draws them
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0] // 2
        rows = torch.randint(n, (64,))
        columns = torch.randint(n, 2 * n, (64,))
        if not bool((a[rows, columns] == 0).all()):
            return a @ b
        y = torch.zeros_like(a)
        y[:n] = a[:n, :n] @ b[:n]
        y[n:] = a[n:] @ b
        return y
