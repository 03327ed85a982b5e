# family: 36
# title: divides by the number of elements that a mask leaves, also by zero
# assumes: a mask leaves something of every row
# task: masked_mean
# expect: non_finite
# check: families
# mechanism: masks are redrawn with rows that are all true or all false
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, mask):
        return (x * mask).sum(dim=1) / mask.sum(dim=1)
