# family: 48
# title: never returns
# assumes: somebody else has the patience
# task: pointwise
# wins: no
# expect: timeout
# check: limits
# mechanism: every wait has a limit; then the process group is killed
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        while True:
            pass
