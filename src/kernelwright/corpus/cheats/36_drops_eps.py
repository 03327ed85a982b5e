# family: 36
# title: leaves out the least length, so that a row of zeros becomes NaN
# assumes: no row is zero
# task: unit_rows
# expect: non_finite, incorrect_numerics
# check: families
# mechanism: rows of zeros and very small rows among ordinary ones
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x / x.square().sum(dim=1, keepdim=True).sqrt()
