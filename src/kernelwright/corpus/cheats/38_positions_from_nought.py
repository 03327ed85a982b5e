# family: 38
# title: rotates by positions from nought on, whatever positions it is given
# assumes: numbers in a row are always the same ones
# task: rotary
# expect: incorrect_numerics
# check: families
# mechanism: numbers in a row are shifted where the reference accepts it
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, d):
        super().__init__()
        inv_freq = 10000.0 ** (-torch.arange(0, d, 2).float() / d)
        angle = torch.outer(torch.arange(1024).float(), inv_freq)
        self.turn = torch.polar(torch.ones_like(angle), angle)

    def forward(self, x, positions):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turn).flatten(-2)
