"""What a target is: a device, a language, and everything that the rest of the product may ask of the two.

A target is one object. Nothing outside its folder compares device or language names: what differs between
targets is asked of the object. Only ``name``, ``device`` and ``lowering`` must be there. Every other
capability is None where a target does not have it, and the product then does without.

Another package adds a target with an entry point in the group ``kernelwright.targets``, whose name is the
target's; docs/targets.md walks through one. Import what is heavy (torch, printers) inside the methods: the
command line looks at targets before it needs any of it.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict

from kernelwright.core.evidence import FactValue
from kernelwright.core.machine import Accelerator, Machine
from kernelwright.core.target import TargetName
from kernelwright.targets.device import DeviceKind

if TYPE_CHECKING:
    from kernelwright.ir.lowering import Lowering, Write
    from kernelwright.machine.compiler import RunCompiler
    from kernelwright.targets.gpu.facts import GpuFacts
    from kernelwright.targets.gpu.inspect.findings import AotCheck, Ways
    from kernelwright.targets.gpu.inspect.form import AotForm
    from kernelwright.targets.gpu.profilers.profile import Profiled


@dataclass(frozen=True)
class BuildSite:
    """What a target may use to build a candidate."""

    cache_dir: Path
    """Where what was built is kept, by content; candidates find it as ``$KERNELWRIGHT_BUILD_CACHE``."""
    timeout_s: float
    """For each run of a compiler."""
    run: "RunCompiler | None" = None
    """Runs a compiler, confined by the referee: what a source includes may name any file, and need not end.
    None: a plain child, for tests."""
    architecture: str | None = None
    """What the compiler of a device's code builds for, e.g. ``sm_90a``; None: the device says nothing."""
    is_reported: bool = True
    """Facts are wanted: what the compiler says of loops, and what the machine code shows."""
    is_in_parts: bool = False
    """Kernels of one source may be compiled apart: most of them are as in a source built before."""


@dataclass(frozen=True)
class BuildResult:
    """What came of a build. ``error`` is None when the library is there."""

    error: str | None = None
    log: str = ""
    facts: dict[str, FactValue] | None = None
    """Metrics that the compiler's report tells (core/evidence.py)."""
    library: Path | None = None
    is_late: bool = False
    """The error is that a compiler did not end in time."""


class Inspect(Protocol):
    """Looks at a candidate before a device is used, for one that need not be here."""

    def __call__(
        self, source: str, gpu: "GpuFacts", *, task_source: str, is_training: bool, ways: "Ways"
    ) -> "AotCheck":
        """Return what compilers say of it; never raises for what is missing or bad."""
        ...


class Profile(Protocol):
    """Calls a candidate under profilers, unconfined: give it only what was verified and is trusted."""

    def __call__(self, source: str, task_source: str, *, mode: str, is_tf32: bool) -> "Profiled":
        """Return what a profiler says of calls as the referee makes them; never raises for none.

        ``is_tf32``: products of float32 may be rounded to TF32, as the task's tolerance allows.
        """
        ...


class Build(Protocol):
    """Builds what a candidate holds as literals, before anything of the candidate runs."""

    def __call__(self, source: str, site: BuildSite) -> BuildResult | None:
        """Return what was built, None where the source asks for nothing of this target's.

        Reads the source as text and runs compilers through ``site.run`` alone. A source that cannot be built
        is a result with an ``error``. Raises MachineError where the compiler is missing.
        """
        ...


@dataclass(frozen=True)
class Loader:
    """A fixed text in every candidate of a language: it finds what was built, or builds it, and opens it."""

    text: str
    marker: re.Pattern[str]
    """What a source has that this loader belongs to, e.g. ``^CPP_SOURCE``."""
    imports: tuple[str, ...] = ()
    """Import lines that the text needs."""


class Features(BaseModel):
    """What a model reads off a source; a subclass names the fields, each with None for "cannot be told"."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


@dataclass(frozen=True)
class Prompting:
    """What language models are told of a target, and held to."""

    language: str
    """As in sentences, e.g. ``C++``."""
    own: re.Pattern[str]
    """What a file with a kernel in this language holds."""
    folders: tuple[Path, ...]
    """Where its prompt files are: ``rules.md``, ``brief.md`` (the same in few words) and ``example.md``, with
    what they include."""
    features: type[Features]
    foreign: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    """Other language -> what gives it away, the likelier one first."""
    approaches: tuple[str, ...] = ()
    """What seeds are asked to differ in, in turn; empty: nothing is asked."""
    hot_spot: str = "loop"
    """What the hottest part of a kernel is called."""
    causes: str = ""
    """What else makes its kernels fail, for who looks for a cause."""
    advice: Mapping[str, str] = field(default_factory=dict)
    """What limits an operator, ``memory`` or ``compute`` -> what helps."""
    watch: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What limits an operator, as in ``advice`` -> names of evidence that show it."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """What its own prompt files ask for beyond ``target``, ``device_title`` and ``may_round``."""

    def file(self, name: str) -> Path:
        """Return one of its prompt files; of two folders that have it the first one's."""
        return next(path for folder in self.folders if (path := folder / name).exists())


class Target(ABC):
    """A device and a language that kernels are written in for it. Stateless; one object serves a process."""

    name: TargetName
    device: DeviceKind
    is_run: bool = True
    """False: candidates are only inspected; the product neither writes nor runs them."""
    shows_host_side: bool = False
    """Skills may show the host's side of a candidate in Python."""
    kernel_words: tuple[str, ...] = ()
    """A candidate with a kernel of its own has one of these words; empty: nobody knows."""

    @property
    @abstractmethod
    def lowering(self) -> "Lowering":
        """How programs are scheduled: to be printed, or to be read where only models write."""

    @property
    def writer(self) -> "Write | None":
        """Prints a candidate; None: only models and people write this language."""
        return None

    @property
    def library_writer(self) -> "Write | None":
        """Prints a candidate without kernels, all of whose operators stay calls of torch."""
        return self.writer

    @property
    def unknown_accelerator(self) -> Accelerator | None:
        """The device as plans see it where nothing is known of it; None: the processor."""
        return Accelerator(kind=self.device.name) if self.device.is_apart else None

    def probe_machine(self, cache_dir: Path) -> Machine:
        """Return this machine as runs for the target plan for it; measured once, kept in the folder.

        Raises:
            MachineError: it cannot be measured.
        """
        # lazy: compiles a probe
        from kernelwright.machine.probe import probe_machine

        return probe_machine(cache_dir)

    @property
    def build(self) -> Build | None:
        """Builds candidates before they run; None: they need no compiler, or bring their own."""
        return None

    def combined(self, programs: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Return candidates' programs so that they may stand in one file.

        The text is what all of them need at the file's top level, empty for nothing. ``build`` sees it there.
        """
        return "", tuple(programs)

    @property
    def aot_forms(self) -> "tuple[AotForm, ...]":
        """How ``kernelwright inspect`` finds and compiles its kernels; empty: it does not."""
        return ()

    @property
    def inspect(self) -> "Inspect | None":
        """Looks at candidates of a run before they are judged; None: the referee is the first who does."""
        return None

    @property
    def profile(self) -> "Profile | None":
        """Profiles a verified candidate; None: there is no profiler."""
        return None

    @property
    def loader(self) -> Loader | None:
        """The text in candidates that prompts show as one line; None: there is none."""
        return None

    @property
    def prompting(self) -> Prompting | None:
        """What models are told; None: models are not asked for this language."""
        return None

    def has_kernel(self, source: str) -> bool:
        """Tell whether a candidate has a kernel of its own; without one it arranges calls of torch anew.

        What defines no ``ModelNew`` is not understood, and counts as having one.
        """
        words = self.kernel_words if "ModelNew" in source else ()
        return not words or any(word in source for word in words)

    def __str__(self) -> str:
        return str(self.name)
