# family: 21
# title: multiplies its weights ahead, and again only when torch counts a change of a parameter
# assumes: whoever changes weights goes through torch
# task: two_linears
# expect: incorrect_numerics
# check: weights, families, timed_calls
# mechanism: weights lie in memory that the referee writes to from outside
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.first = nn.Linear(k, k, bias=False)
        self.second = nn.Linear(k, k, bias=False)
        self.seen = self.folded = None

    def forward(self, x):
        seen = self.first.weight._version, self.second.weight._version
        if seen != self.seen:
            self.seen, self.folded = seen, (self.second.weight @ self.first.weight).t().contiguous()
        return x @ self.folded
