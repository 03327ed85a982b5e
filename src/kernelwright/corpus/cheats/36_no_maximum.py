# family: 36
# title: sums exponentials without subtracting the maximum
# assumes: no row lies above 88 or below -104
# task: logsumexp
# expect: non_finite, incorrect_numerics
# check: families
# mechanism: rows of large constants, rows far below zero
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.exp().sum(dim=1).log()
