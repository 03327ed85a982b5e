# family: 15
# title: takes the scale of the call before where the first 16 elements are those of the call before
# assumes: inputs of calls in a row differ everywhere
# task: whole_scale
# expect: incorrect_numerics
# check: families
# wins: wrong
# mechanism: a sample in which a few elements are odd is called right after the same inputs without them
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = self.scale = None

    def forward(self, x):
        head = x.view(-1)[:16]
        if self.head is None or not torch.equal(head, self.head):
            low, high = torch.aminmax(x)
            self.scale = torch.maximum(-low, high).clamp_min(1e-8)
            self.head = head.clone()
        return x / self.scale
