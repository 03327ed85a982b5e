# family: 40
# title: works for one shape only
# assumes: there is one shape
# task: shapes
# wins: no
# expect: incorrect_shape, incorrect_numerics, runtime_error
# check: form, oracle, raised
# mechanism: every workload of the task is verified by itself
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.zeros(256, 384, device=x.device)
        rows = min(x.shape[0], 256)
        y[:rows, : x.shape[1]] = torch.softmax(x[:rows], dim=1) * x[:rows]
        return y
