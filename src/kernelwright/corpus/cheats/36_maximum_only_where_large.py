# family: 36
# title: subtracts the maximum only where some score is large enough to overflow
# assumes: no row has only scores far below zero
# task: attention
# expect: non_finite, incorrect_numerics
# check: families
# mechanism: one sample moves every second input up and the others down
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        scores = q @ k.transpose(1, 2) / 8
        if float(scores.amax()) > 80:
            return torch.softmax(scores, dim=2) @ v
        terms = scores.exp_()
        return (terms @ v) / terms.sum(dim=2, keepdim=True)
