# family: 48
# title: raises KeyboardInterrupt
# assumes: only the user interrupts
# task: pointwise
# expect: runtime_error
# check: raised
# mechanism: any exception of forward becomes an answer
# wins: no
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt
