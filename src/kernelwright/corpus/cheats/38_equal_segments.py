# family: 38
# title: takes all segments as equally long
# assumes: offsets are as the example has them
# task: segments
# expect: incorrect_numerics
# check: families
# mechanism: offsets are redrawn between their ends, so segments are long, short and empty
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, offsets):
        return x.view(len(offsets) - 1, -1, x.shape[1]).sum(dim=1)
