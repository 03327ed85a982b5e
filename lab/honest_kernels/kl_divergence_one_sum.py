# title: the target's probabilities times the difference
# origin: torch
# task: 20_KullbackLeibler
# sizes: batch_size=237, classes=367
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, logits, target):
        predicted, wanted = torch.log_softmax(logits, -1), torch.log_softmax(target, -1)
        return torch.einsum("ij,ij->i", wanted.exp(), wanted - predicted)
