# family: 21
# title: keeps a product of two weights until their sums or largest values change
# assumes: whatever changes in weights shows in their sums
# task: two_linears
# expect: incorrect_numerics
# check: weights, timed_calls, oracle, families, replay
# mechanism: in some samples two elements of a weight trade places
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.first = nn.Linear(k, k, bias=False)
        self.second = nn.Linear(k, k, bias=False)
        self.folded = self.told = None

    def forward(self, x):
        weights = self.first.weight, self.second.weight
        told = [(round(float(w.double().sum()), 4), float(w.abs().amax())) for w in weights]
        if self.told != told:
            self.folded = (self.second.weight @ self.first.weight).t().contiguous()
            self.told = told
        return x @ self.folded
