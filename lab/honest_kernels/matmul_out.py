# title: into fresh memory
# origin: torch
# task: 29_SquareMatmul
# sizes: size=259
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty(a.shape[0], b.shape[1])
        return torch.mm(a, b, out=c)
