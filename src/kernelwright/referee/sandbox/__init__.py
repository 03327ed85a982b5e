"""Confines the processes that run untrusted code. Uses the standard library only."""

from kernelwright.referee.sandbox.limits import ProcessLimits
from kernelwright.referee.sandbox.tiers import BARE, NOT_STOPPED, ORDER, Sandbox, Tier

__all__ = ["BARE", "NOT_STOPPED", "ORDER", "ProcessLimits", "Sandbox", "Tier"]
