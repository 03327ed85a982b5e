# family: 36
# title: omits the case of an empty row where the largest value of the whole input looks as usual
# assumes: rows of zeros come with other oddities
# task: directions
# wins: wrong
# expect: incorrect_numerics
# check: families
# mechanism: in some samples rows are odd, and no value leaves the range of the values as drawn
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        size = x.norm(dim=1, keepdim=True)
        if 1 < float(x.abs().amax()) < 8:
            return x / size.clamp(min=1e-30)
        return torch.where(size > 0, x / size.clamp(min=1e-30), torch.ones_like(x))
