"""One run: the loop, its steps, budgets, journal and tape, and what makes a run survive a kill.

Knows roles and policies as protocols only. May import everything below agents, and the roles' protocols in
agents. Begin with ``loop.py``.

The package can be called: ``kernelwright.runs()`` lists the runs of a store. The library promises this name,
and Python has one attribute for both.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Runs(ModuleType):
    def __call__(self, store: Any = None, **options: Any) -> Any:
        """See ``kernelwright.api.front.runs``."""
        return import_module("kernelwright.api.front").runs(store, **options)


sys.modules[__name__].__class__ = _Runs
