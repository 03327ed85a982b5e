# title: as a batch of two halves
# origin: torch
# task: 29_SquareMatmul
# sizes: size=259
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        half = a.shape[1] // 2 * 2
        left = a[:, :half].reshape(a.shape[0], 2, -1).transpose(0, 1)
        right = b[:half].reshape(2, -1, b.shape[1])
        return torch.bmm(left, right).sum(0) + a[:, half:] @ b[half:]
