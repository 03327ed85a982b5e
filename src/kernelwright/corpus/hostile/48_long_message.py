# family: 48
# title: raises an exception with a message of 100 MB
# assumes: messages are short
# task: pointwise
# expect: runtime_error, crashed, timeout
# check: raised, limits
# mechanism: messages are cut before sending, and answers have a size limit
# wins: no
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        raise RuntimeError("x" * 100_000_000)
