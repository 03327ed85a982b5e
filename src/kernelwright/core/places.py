"""Where tasks and kernels are to be had, as data and as one word each."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, field_validator

from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen

SUITE, TEXT, SAVED = "suite", "text", "saved"
"""How the words begin that name something else than a path."""


class AtPath(Frozen):
    """A file, or where several tasks are meant a folder of them."""

    kind: Literal["path"] = "path"
    path: str = Field(min_length=1)

    @field_validator("path")
    @classmethod
    def _as_a_path(cls, path: str) -> str:
        """Mark a path that would be read as an option, or as one of the other words."""
        is_other = path == SUITE or path.startswith((f"{SUITE}:", f"{TEXT}:", f"{SAVED}:", "-"))
        return f"./{path}" if is_other else path

    def __str__(self) -> str:
        return self.path

    @property
    def title(self) -> str:
        """How files about it begin."""
        return self.path.replace("\\", "/").rpartition("/")[2].removesuffix(".py")


class AsText(Frozen):
    """Source text itself."""

    kind: Literal["text"] = "text"
    name: str = Field(default="task", min_length=1, pattern=r"^[^:]+$")
    source: str

    def __str__(self) -> str:
        return f"{TEXT}:{self.name}:{self.source}"

    @property
    def title(self) -> str:
        """How files about it begin."""
        return self.name


class OfSuite(Frozen):
    """A task of our own suite; where several are meant, all of it when no name is given."""

    kind: Literal["suite"] = "suite"
    name: str = ""

    def __str__(self) -> str:
        return f"{SUITE}:{self.name}" if self.name else SUITE

    @property
    def title(self) -> str:
        """How files about it begin."""
        return self.name or SUITE


class AsSaved(Frozen):
    """A task that lies in a file as JSON: a live module, pickled beside it."""

    kind: Literal["saved"] = "saved"
    path: str = Field(min_length=1)

    def __str__(self) -> str:
        return f"{SAVED}:{self.path}"

    @property
    def title(self) -> str:
        """How files about it begin."""
        return self.path.rpartition("/")[2].removesuffix(".json")


TaskPlace: TypeAlias = Annotated[AtPath | AsText | OfSuite | AsSaved, Field(discriminator="kind")]
"""Where a task is to be had."""
KernelPlace: TypeAlias = Annotated[AtPath | AsText, Field(discriminator="kind")]
"""Where a kernel's source is to be had."""


def parse_place(word: str) -> AtPath | AsText | OfSuite | AsSaved:
    """Return what one word names: ``suite``, ``suite:NAME``, ``text:NAME:SOURCE``, ``saved:PATH`` or a path.

    Raises:
        UserError: the word is empty, or begins as one of the others and does not go on so.

    Example:
        >>> parse_place("suite:27_Softmax").name
        '27_Softmax'
    """
    first, colon, rest = word.partition(":")
    if word == SUITE or (first == SUITE and colon):
        return OfSuite(name=rest)
    if first == SAVED and rest:
        return AsSaved(path=rest)
    if first == TEXT and colon:
        name, second_colon, source = rest.partition(":")
        if name and second_colon:
            return AsText(name=name, source=source)
    if not word or (colon and first in (SAVED, TEXT)):
        raise UserError(f"{word[:40]!r} names no task; write a path, suite:NAME or text:NAME:SOURCE")
    return AtPath(path=word)
