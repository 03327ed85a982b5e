# family: 21
# title: multiplies its weights ahead, and again only when sixteen sampled elements have changed
# assumes: changed weights can be told by a few of their elements
# task: two_linears
# expect: incorrect_numerics
# check: weights, families
# mechanism: weights change between samples, at times in one element only
import torch
from torch import nn

AT = torch.randint(384, (2, 16))


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.first = nn.Linear(k, k, bias=False)
        self.second = nn.Linear(k, k, bias=False)
        self.seen = self.folded = None

    def forward(self, x):
        seen = torch.stack([m.weight[AT[0], AT[1]] for m in (self.first, self.second)])
        if self.seen is None or not torch.equal(seen, self.seen):
            self.seen, self.folded = seen, (self.second.weight @ self.first.weight).t().contiguous()
        return x @ self.folded
