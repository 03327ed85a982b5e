# family: 38
# title: looks for the four largest values among the two largest of every sixteen neighbours
# assumes: large values do not lie side by side
# task: largest_of_row
# wins: wrong
# expect: incorrect_numerics
# check: oracle, families, timed_calls, replay
# mechanism: in one sample all rows are sorted
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        best = torch.topk(x.view(len(x), -1, 16), 2, dim=2)[0]
        return torch.topk(best.view(len(x), -1), 4, dim=1)[0]
