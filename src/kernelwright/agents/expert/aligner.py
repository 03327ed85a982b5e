"""The expert Aligner: a lowered source carries out exactly its plan."""

from kernelwright.agents.roles import Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.plan import Plan


class ExpertAligner:
    """Fills the Aligner's seat (see roles.Aligner)."""

    def align(self, situation: Situation, candidate: Candidate) -> Plan:
        """Return the candidate's own plan: the Coder leaves out of it what it could not carry out."""
        return candidate.plan
