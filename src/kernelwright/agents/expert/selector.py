"""The expert Selector: the fastest over all workloads, and the one that differs from it most."""

from kernelwright.agents.roles import Node, Pick, Situation


class ExpertSelector:
    """Fills the Selector's seat (see roles.Selector)."""

    def select(self, situation: Situation) -> Pick | None:
        """Return base and reference among the verified members of the window."""
        raise NotImplementedError
