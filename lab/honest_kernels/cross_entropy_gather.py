# title: log-sum-exp less what is at the labels
# origin: torch
# task: 18_CrossEntropy
# sizes: batch_size=831, classes=167
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        counts = labels != -100
        at = logits.gather(1, labels.clamp(min=0)[:, None]).squeeze(1)
        lost = torch.where(counts, torch.logsumexp(logits, dim=1) - at, 0.0)
        return lost.sum() / counts.sum()
