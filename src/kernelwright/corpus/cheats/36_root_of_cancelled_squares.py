# family: 36
# title: takes the root of a squared distance from three products, without a clamp
# assumes: no two rows are nearly the same
# task: distances
# wins: wrong
# expect: non_finite
# check: families
# mechanism: inputs of one shape are made nearly the same
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ((x * x).sum(dim=1) + (y * y).sum(dim=1) - 2 * (x * y).sum(dim=1)).sqrt()
