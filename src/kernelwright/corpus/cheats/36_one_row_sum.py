# family: 36
# title: normalises every row by the sum of the first
# assumes: rows have equal sums
# task: divergence
# expect: non_finite, incorrect_numerics
# check: families
# mechanism: single rows are scaled, one-hot or constant
import torch.nn.functional as F
from torch import nn


class ModelNew(nn.Module):
    def forward(self, p, q):
        return F.kl_div((q / q[0].sum()).log(), p / p[0].sum(), reduction="none").sum(dim=1)
