"""What a build node of a fleet does: it compiles for machines that time, and runs nothing of it."""

import tempfile
from pathlib import Path

from kernelwright.api.machines import bound_settings
from kernelwright.core.errors import KernelwrightError
from kernelwright.machine.built_elsewhere import read_cache, toolchain
from kernelwright.referee.session.confined import confined_compiler
from kernelwright.referee.settings import make_referee_settings
from kernelwright.remote.fleet.farm import BuildOrder, BuiltFiles
from kernelwright.remote.fleet.records import WorkerVersion
from kernelwright.remote.lines import one_line
from kernelwright.targets.base import BuildSite
from kernelwright.targets.registry import build_candidate

BUILD = f"{__name__}:build_for_another"
"""How build nodes find ``build_for_another``."""


def build_for_another(order: BuildOrder) -> BuiltFiles:
    """Compile a program, confined, where this machine is like the one that wants it."""
    try:
        if order.version != WorkerVersion.here():
            return BuiltFiles(problem="it runs another version of Kernelwright")
        if order.toolchain != toolchain():
            return BuiltFiles(problem="it has another processor or another compiler")
        settings = make_referee_settings(bound_settings(None, order.require_sandbox))
        with tempfile.TemporaryDirectory(prefix="kernelwright-build-") as folder:
            with confined_compiler(settings) as compiler:
                site = BuildSite(Path(folder), order.limit_s, compiler.run, is_reported=order.is_reported)
                build_candidate(order.program, site)
            return BuiltFiles(read_cache(Path(folder)))
    except KernelwrightError as error:  # the border: the machine that times builds by itself
        return BuiltFiles(problem=one_line(error))
