"""The candidate's process: builds ``ModelNew`` from source text and serves the parent's commands.

Knows neither the reference nor its outputs, tolerances or seeds.
"""

import faulthandler
import linecache
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch._C._profiler import ProfilerConfig, ProfilerState
from torch._dynamo.mutation_guard import install_generation_tagging_init

from kernelwright.referee.worker.call_loop import CallLoop
from kernelwright.referee.worker.runner import Runner, serve
from kernelwright.referee.worker.tamper import DEVICE_OWNERS, Fingerprint
from kernelwright.referee.worker.tensors import dtype_name
from kernelwright.referee.worker.wire import Message

MODULE_NAME = "kernelwright_candidate"


class CandidateModule(Runner):
    """A Runner whose module comes from the candidate's source."""

    def __init__(self, loop: CallLoop) -> None:
        super().__init__(loop)
        install_generation_tagging_init()  # torch.compile patches nn.Module like this on its first use
        self.fingerprint = Fingerprint(more_owners=self.placement.watched())
        self._own_means = self.placement.watched()

    def handlers(self) -> dict[str, Callable[[Message], Message]]:
        """Add loading and constructing."""
        return {
            **super().handlers(),
            "import": self.import_source,
            "construct": self.construct,
            "tampered": self.tampered,
            "trace": self.trace,
        }

    def place(self, message: Message) -> Message:
        """Place as every runner does and take a new fingerprint: no code of the candidate has run yet."""
        facts = super().place(message)
        self._own_means = self.placement.watched()
        self.fingerprint = Fingerprint(self.placement.switches(), (*DEVICE_OWNERS, *self._own_means))
        return facts

    def tampered(self, message: Message) -> Message:
        """Return the foreign functions and global state that the candidate changed."""
        own = [f"{name} of the worker was replaced" for name in vars(self) if hasattr(CandidateModule, name)]
        if [id(means) for means in self.placement.watched()] != [id(means) for means in self._own_means]:
            own.append("the code that places its tensors was replaced")
        return {"changes": own + self.fingerprint.changes(), "notes": self.fingerprint.notes()}

    def trace(self, message: Message) -> Message:
        """Call the module once and count the operations dispatched, whichever code called them."""
        call, args = self.callables["eager"], self.sets[message["set"]]
        profiler = torch._C._autograd
        profiler._enable_profiler_legacy(_profiler_config())
        torch.autograd.profiler._is_profiler_enabled = True  # makes compiled regions appear by name
        try:
            call(*args)
        finally:
            torch.autograd.profiler._is_profiler_enabled = False
            records = profiler._disable_profiler_legacy()
        names = [record.name() for thread in records for record in thread if str(record.kind()) == "push"]
        return {"names": dict(Counter(names))}

    def import_source(self, message: Message) -> Message:
        """Execute the source as a module. A source that compiles something itself does so here."""
        if os.path.isdir(message.get("build_cache", "")):
            os.environ["KERNELWRIGHT_BUILD_CACHE"] = message["build_cache"]
        self.namespace = _execute(message["source"])
        return {}

    def construct(self, message: Message) -> Message:
        """Call ``ModelNew(*init_args)`` under the given (public) seed; answers with its state's layout."""
        args = self.placement.bind("init", message["args"], self.arenas.get("init"))
        torch.manual_seed(message["seed"])
        model = self.namespace.ModelNew(*args)
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"ModelNew(...) is a {type(model).__name__}, not a torch.nn.Module")
        self.model = self.placement.module(model).train(message["train"])
        self.callables["eager"] = self.model
        self.loop.use(self.model)
        return {"state": {name: _describe(value) for name, value in self.state().items()}}


def _profiler_config() -> Any:
    no = (False,) * 5
    return ProfilerConfig(ProfilerState.CPU, *no, torch._C._profiler._ExperimentalConfig())


def _describe(value: torch.Tensor) -> dict[str, Any]:
    return {"dtype": dtype_name(value.dtype), "shape": list(value.shape)}


def _execute(source: str) -> ModuleType:
    filename = f"<{MODULE_NAME}>"
    module = ModuleType(MODULE_NAME)
    module.__file__ = filename
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    sys.modules[MODULE_NAME] = module  # dataclasses and torch.compile look their module up there
    exec(compile(source, filename, "exec"), module.__dict__)  # the untrusted part, in its own process
    return module


def main(sock: socket.socket, loop: CallLoop) -> None:
    """Serve until the parent hangs up."""
    for name in ("enable", "register"):  # a usual line for debugging is no fraud, and must not hide one
        setattr(faulthandler, name, lambda *args, **named: None)
    serve(sock, CandidateModule(loop))
