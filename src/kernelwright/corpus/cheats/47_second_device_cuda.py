# family: 47
# title: uses a second GPU
# assumes: a candidate uses the device it was given
# task: matmul
# target: cuda
# expect: load_error, runtime_error
# check: interface, raised
# mechanism: only one device is visible to the worker
import torch
from torch import nn

if torch.cuda.device_count() < 2:
    raise LookupError("no second device")


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0] // 2
        other = torch.device("cuda:1")
        low = (torch.relu(a[n:].to(other) @ b.to(other)) @ a.to(other)).to(a.device)
        return torch.cat([torch.relu(a[:n] @ b) @ a, low])
