# family: 41
# title: is an eighth too large throughout, in bfloat16
# assumes: a tolerance of many units in the last place, in units of a half precision
# task: half_linear
# wins: wrong
# expect: incorrect_numerics
# check: oracle, precision, families
# mechanism: half precisions get 4 units for roundings; sums count as float32
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.lin = nn.Linear(k, k).bfloat16()

    def forward(self, x):
        return self.lin(x) * 1.125
