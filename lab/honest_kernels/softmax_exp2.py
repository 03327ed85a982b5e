# title: powers of two
# origin: torch
# task: 27_Softmax
# sizes: batch_size=300, features=731
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        e = torch.exp2((x - x.amax(dim=-1, keepdim=True)) * 1.4426950408889634)
        return e / e.sum(dim=-1, keepdim=True)
