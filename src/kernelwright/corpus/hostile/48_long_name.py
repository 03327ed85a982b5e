# family: 48
# title: raises an exception whose class has a name of 5 MB
# assumes: names of classes are short
# task: pointwise
# expect: runtime_error
# check: raised
# mechanism: the parent cuts whatever a process says of an exception, its class's name included
# wins: no
from torch import nn

Flood = type("x" * 5_000_000, (Exception,), {})


class ModelNew(nn.Module):
    def forward(self, x):
        raise Flood
