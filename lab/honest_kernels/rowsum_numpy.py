# title: NumPy on the tensor's memory
# origin: NumPy
# task: 7_RowSum
# sizes: batch_size=500, features=1003
import numpy as np
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.detach().numpy()
        return torch.from_numpy(np.einsum("ij,ij->i", y, y)[:, None])
