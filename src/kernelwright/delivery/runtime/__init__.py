"""What runs in the user's program: guards, operator, counts. Needs torch and the standard library alone.

A delivered folder carries these files, so that it runs without Kernelwright. Imports are relative. Where a
file here only names one of ``core/`` or ``tasks/``, that one stands in its place there. Begin with
``module.py``.
"""

from .calls import CallReport, NotVerifiedError, report, strict
from .kernel import VerifiedKernel
from .module import attach

__all__ = ["CallReport", "NotVerifiedError", "VerifiedKernel", "attach", "report", "strict"]
