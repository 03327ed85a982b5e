"""What a kernel's machine code consists of, the same for both vendors."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeAlias

from pydantic import Field

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen

Kind: TypeAlias = Literal[
    "global_load", "global_store", "shared", "async_copy", "local", "matrix", "fma", "special", "shuffle",
    "atomic", "barrier", "branch", "other",
]  # fmt: skip
"""What an instruction is for."""

Instruction: TypeAlias = tuple[Kind, int]
"""The kind, and for loads and stores the bytes a thread moves, otherwise 0."""


class InstructionMix(Frozen):
    """Instructions of one kernel by kind; counted where they stand, not as often as they run."""

    counts: dict[Kind, int]
    load_widths: dict[int, int] = Field(default_factory=dict)
    """Bytes of a thread's load from global memory -> number of such instructions."""
    store_widths: dict[int, int] = Field(default_factory=dict)

    @property
    def total(self) -> int:
        """All instructions."""
        return sum(self.counts.values())

    def count(self, kind: Kind) -> int:
        """Return how many instructions are of the kind."""
        return self.counts.get(kind, 0)


def mix_of(instructions: Iterable[Instruction]) -> InstructionMix:
    """Count the instructions of a kernel."""
    found = list(instructions)
    return InstructionMix(
        counts=dict(sorted(Counter(kind for kind, _ in found).items())),
        load_widths=_widths(found, "global_load"),
        store_widths=_widths(found, "global_store"),
    )


def _widths(instructions: list[Instruction], kind: Kind) -> dict[int, int]:
    return dict(sorted(Counter(width for found, width in instructions if found == kind).items()))


def mix_facts(mix: InstructionMix) -> dict[str, FactValue]:
    """Return the mix under the names of the evidence; widths are None without such instructions."""
    return {
        "aot.instructions": mix.total,
        "aot.load_bytes": _mean(mix.load_widths),
        "aot.store_bytes": _mean(mix.store_widths),
        "aot.global_accesses": mix.count("global_load") + mix.count("global_store"),
        "aot.shared_accesses": mix.count("shared"),
        "aot.async_copies": mix.count("async_copy"),
        "aot.matrix_instructions": mix.count("matrix"),
        "aot.fma_instructions": mix.count("fma"),
        "aot.special_instructions": mix.count("special"),
        "aot.shuffles": mix.count("shuffle"),
        "aot.atomics": mix.count("atomic"),
        "aot.barriers": mix.count("barrier"),
        "aot.branches": mix.count("branch"),
    }


def _mean(widths: dict[int, int]) -> float | None:
    number = sum(widths.values())
    return sum(width * count for width, count in widths.items()) / number if number else None
