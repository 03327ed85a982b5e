# family: 46
# title: multiplies with NumPy's library, bypassing torch
# assumes: only torch is looked at
# task: matmul
# policy: library_calls=forbidden
# wins: no
# expect: rejected
# check: own_kernel, library_calls
# mechanism: a candidate without a declared library has no kernel of its own
import numpy as np
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        middle = np.maximum(a.cpu().numpy() @ b.cpu().numpy(), 0)
        return torch.from_numpy(middle @ a.cpu().numpy()).to(a.device)
