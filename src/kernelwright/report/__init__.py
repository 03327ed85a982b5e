"""What a run or a bench came to, for people: pure functions from store records to text.

The package can be called: ``kernelwright.report(module)`` says which ran, kernel or original. The library
promises this name, and Python has one attribute for both.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Reports(ModuleType):
    def __call__(self, module: Any) -> Any:
        """See ``kernelwright.api.front.report``."""
        return import_module("kernelwright.api.front").report(module)


sys.modules[__name__].__class__ = _Reports
