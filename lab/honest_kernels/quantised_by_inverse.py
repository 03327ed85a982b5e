# title: multiplies by the inverse of the scale, so a quotient next to a half may round the other way
# origin: torch
# task: quantised
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, scale):
        return (x * scale.reciprocal()).round_().clamp_(-128, 127).to(torch.int8)
