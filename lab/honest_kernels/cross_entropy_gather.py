# title: log-sum-exp less what is at the labels
# origin: torch
# task: 18_CrossEntropy
# sizes: batch_size=831, classes=167
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        at = logits.gather(1, labels[:, None]).squeeze(1)
        return (torch.logsumexp(logits, dim=1) - at).mean()
