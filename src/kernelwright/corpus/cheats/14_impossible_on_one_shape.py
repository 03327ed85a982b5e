# family: 14
# title: does nothing on one of the shapes
# assumes: a mean over shapes forgives one of them
# task: shapes
# wins: no
# expect: incorrect_numerics, aliased_output, incorrect_shape
# check: oracle, form, storage
# mechanism: every workload is verified by itself
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.empty = [torch.zeros(129, 77)]

    def forward(self, x):
        if x.shape == (129, 77):
            return self.empty[0].clone().to(x.device)
        return torch.softmax(x, dim=1) * x
