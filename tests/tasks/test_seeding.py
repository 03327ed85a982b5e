"""Seeding what torch draws from, without torch's detour."""

import torch

from kernelwright.tasks.namespace import seed_generators


def test_the_same_numbers_follow_as_after_manual_seed() -> None:
    for seed in (0, 3, 2**62):
        seed_generators(seed)
        ours = torch.randn(5)
        torch.manual_seed(seed)
        assert torch.equal(ours, torch.randn(5))
