# family: 36
# title: counts labels that the loss ignores
# assumes: no label is ignore_index
# task: cross_entropy
# expect: incorrect_numerics, runtime_error, non_finite
# check: families, raised
# mechanism: some labels take the ignore_index that the reference's loss has
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, scores, labels):
        picked = scores.gather(1, labels.clamp(min=0)[:, None])
        return (torch.logsumexp(scores, dim=1, keepdim=True) - picked).mean()
