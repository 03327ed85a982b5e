"""Published kernels and what was claimed of them: a folder with ``claims.json``."""

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from kernelwright.core.errors import UserError
from kernelwright.core.frozen import Frozen

CLAIMS = "claims.json"
"""Figures that others measured; no verdict of ours."""


class PublishedClaim(Frozen):
    """One published kernel. Paths are relative to the folder."""

    task: str = ""
    """KernelBench-format file that the kernel is for; empty: the folder does not have it."""
    kernel: str = Field(min_length=1)
    """File with ``ModelNew``, or in a GPU's language alone."""
    name: str = ""
    """Empty: the kernel's file."""
    is_correct: bool = Field(default=True, alias="correct")
    speedup: float | None = Field(default=None, gt=0)
    """None: none was claimed."""
    over: str = "eager"
    """What it was compared with: a baseline of ours, else only told."""
    hardware: str = ""
    source: str = ""
    """Where it was published."""
    sizes: dict[str, int | float | bool | str] = Field(default_factory=dict)
    """Globals of the task to rebind."""

    @property
    def title(self) -> str:
        """What the claim is called."""
        return self.name or self.kernel


_CLAIMS = TypeAdapter(tuple[PublishedClaim, ...])


def claims_text(claims: Sequence[PublishedClaim]) -> str:
    """Return the text of ``claims.json``."""
    rows = [claim.model_dump(mode="json", by_alias=True, exclude_defaults=True) for claim in claims]
    return json.dumps(rows, indent=1) + "\n"


def read_claims(folder: Path) -> tuple[PublishedClaim, ...]:
    """Return the claims of a folder in their order.

    Raises:
        UserError: there is no ``claims.json``, it is no list of claims, or a path in it leads nowhere
            or out of the folder.
    """
    path = folder / CLAIMS
    try:
        claims = _CLAIMS.validate_python(json.loads(path.read_text(encoding="utf-8")), strict=False)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); docs/formats.md has its form") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {where}: {first['msg']}; docs/formats.md has its form") from error
    except ValueError as error:
        raise UserError(f"{path}: no JSON: {error}") from error
    if not claims:
        raise UserError(f"{path}: holds no claims")
    for claim in claims:
        for name in filter(None, (claim.task, claim.kernel)):
            if (
                not (folder / name).resolve().is_relative_to(folder.resolve())
                or not (folder / name).is_file()
            ):
                raise UserError(f"{path}: {claim.title}: {name} is no file in {folder}")
    return claims
