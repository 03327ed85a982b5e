# family: 48
# title: raises KeyboardInterrupt
# assumes: only the user interrupts
# task: pointwise
# expect: runtime_error
# check: raised
# mechanism: whatever forward raises becomes an answer
# wins: no
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt
