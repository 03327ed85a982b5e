# title: a sum of outer products
# origin: torch
# task: 29_SquareMatmul
# sizes: size=259
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.zeros(a.shape[0], b.shape[1])
        for k in range(a.shape[1]):
            c.addr_(a[:, k], b[k])
        return c
