"""Graph rewrites: algebra that removes or cheapens work, valid for every finite input.

One rewrite a module: every ``PatternRewrite`` that a module of this package defines is known by its name.
"""

import pkgutil
from importlib import import_module

from kernelwright.ir.edits import Rewrite
from kernelwright.ir.rewrites.pattern import PatternRewrite

_MODULES = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
REWRITES: dict[str, Rewrite] = {
    value.name: value
    for module in _MODULES
    for value in vars(module).values()
    if isinstance(value, PatternRewrite)
}
"""Every rewrite by the name under which skills ask for it."""
