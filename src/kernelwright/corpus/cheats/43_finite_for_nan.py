# family: 43
# title: makes NaN inputs finite
# assumes: inputs are never NaN
# task: pointwise
# expect: non_finite
# check: nonfinite
# mechanism: some inputs are NaN or infinite where the reference keeps that in its row
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.where(x > 0, x, torch.zeros(())) * 2 + 1
