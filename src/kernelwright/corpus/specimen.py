"""One file of the corpus: its header and its source. The format is described in corpus/README.md."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Literal

from pydantic import ValidationError, model_validator

from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Check, Status
from kernelwright.core.frozen import Frozen
from kernelwright.core.policy import Policy
from kernelwright.corpus.families import FAMILIES
from kernelwright.referee.device import parse_device
from kernelwright.referee.sandbox.tiers import Tier
from kernelwright.targets.device import PROCESSOR
from kernelwright.targets.registry import device_kinds

REFUSED = "refused"
"""Outcome when the task itself is not admitted."""
NOT_FASTER = "not_faster"
"""Outcome when it was verified in a final measurement, and not found faster than the reference."""
HARMED = "HARMED"
"""In a verdict's detail: a hostile program reached what it must not."""

OWN_CPP = re.compile(r"^CPP_SOURCE\b", re.MULTILINE)
NO_CHECK = frozenset({str(Status.VERIFIED), REFUSED, NOT_FASTER})
"""Outcomes that no check of the referee's brings about."""


class Kind(StrEnum):
    """Which folder a specimen is in."""

    CHEAT = "cheat"
    HOSTILE = "hostile"


class Specimen(Frozen):
    """A candidate with what it attacks and how it must end."""

    name: str
    kind: Kind
    source: str
    family: int
    title: str
    assumes: str
    task: str
    expect: tuple[str, ...]
    """Statuses it may end with, ``refused``, or ``not_faster``."""
    check: tuple[Check, ...] = ()
    """Checks that may have found it; empty: none is asked for."""
    mechanism: str
    target: str = PROCESSOR.name
    """Kind of device that it is written for."""
    only: str = ""
    """The one kind of device that its mechanism is for."""
    device_expect: tuple[str, ...] = ()
    """How it may end on a device; empty: as ``expect`` says."""
    device_check: tuple[Check, ...] = ()
    policy: Policy = Policy()
    attempts: int = 1
    wins: Literal["speed", "wrong", "no"] = "speed"
    sandbox: Tier | None = None
    """Weakest tier that contains it."""

    @model_validator(mode="after")
    def _is_sensible(self) -> "Specimen":
        if self.family not in FAMILIES:
            raise ValueError(f"family {self.family} is not one of 1 to {len(FAMILIES)}")
        unknown = sorted({*self.expect, *self.device_expect} - {*Status, REFUSED, NOT_FASTER})
        if unknown or not self.expect:
            raise ValueError(f"expect: {', '.join(unknown) or 'nothing'} is no status")
        if not self.check and not set(self.expect) <= NO_CHECK:
            raise ValueError("check: must say which check may find it")
        known = {kind.name for kind in device_kinds()}
        if not {self.target, self.only or self.target} <= known:
            raise ValueError(f"target, only: known are {', '.join(sorted(known))}")
        if self.attempts < 1:
            raise ValueError("attempts: at least one")
        return self

    def runs_on(self, kind: str) -> bool:
        """True where it is judged on this kind of device: own C++ is the processor's, all else is torch's."""
        if self.only:
            return kind == self.only
        is_apart = parse_device(kind).is_apart
        if parse_device(self.target).is_apart:
            return is_apart
        return not is_apart or not OWN_CPP.search(self.source)

    @property
    def needs_device(self) -> bool:
        """True where it cannot be judged on the processor."""
        return not self.runs_on(PROCESSOR.name)

    def on_device(self) -> "Specimen":
        """Return it as it is judged on a device, where memory that nobody wrote to reads as NaN."""
        if self.device_expect:
            return self.model_copy(update={"expect": self.device_expect, "check": self.device_check})
        if Status.INCORRECT_NUMERICS in self.expect:
            return self.model_copy(update={"expect": (*self.expect, Status.NON_FINITE)})
        return self

    def is_as_expected(self, outcome: str, check: Check | None, detail: str) -> bool:
        """True when it ended with a status of its header, found by a check of its header."""
        if outcome not in self.expect or HARMED in detail:
            return False
        return outcome in NO_CHECK or check in self.check


def parse(name: str, kind: Kind, text: str) -> Specimen:
    """Read one file; raises UserError, one line that names it."""
    fields: dict[str, object] = dict(_header(name, text))
    for key in ("expect", "check", "device_expect", "device_check"):
        words = str(fields.get(key, "")).split(",")
        fields[key] = tuple(word.strip() for word in words if word.strip())
    if "policy" in fields:
        fields["policy"] = dict(_assignment(name, word) for word in str(fields["policy"]).split(","))
    try:
        return Specimen.model_validate({**fields, "name": name, "kind": kind, "source": text}, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"specimen {name}: {where}: {first['msg']}".replace(": :", ":")) from error


def _assignment(name: str, word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals:
        raise UserError(f"specimen {name}: policy: expected key=value, not {word.strip()!r}")
    return key.strip(), value.strip()


def _header(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield key and value of every header line, continuation lines joined."""
    key, value = "", ""
    seen: set[str] = set()
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        body = line[1:]
        if body.startswith("    ") and key:
            value += " " + body.strip()
            continue
        if key:
            yield key, value
        key, colon, value = (part.strip() for part in body.partition(":"))
        if not colon or key in seen:
            raise UserError(f"specimen {name}: header line {line!r} is not '# key: value', or comes twice")
        seen.add(key)
    if key:
        yield key, value
