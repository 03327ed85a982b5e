# family: 48
# title: raises SystemExit
# assumes: only an Exception is caught
# task: pointwise
# expect: runtime_error
# check: raised
# mechanism: any exception of forward becomes an answer
# wins: no
import sys

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        sys.exit(0)
