# title: two parts, joined as flash attention joins them
# origin: torch
# task: 27_Softmax
# sizes: batch_size=300, features=731
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        a, b = x.tensor_split(2, dim=1)
        high = torch.maximum(a.amax(1, keepdim=True), b.amax(1, keepdim=True))
        ea, eb = torch.exp(a - high), torch.exp(b - high)
        total = ea.sum(1, keepdim=True) + eb.sum(1, keepdim=True)
        return torch.cat((ea / total, eb / total), dim=1)
