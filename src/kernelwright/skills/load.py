"""Skill files: YAML front matter and a Markdown body (the SKILL.md convention)."""

from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from kernelwright.core.errors import UserError
from kernelwright.core.skill import Skill
from kernelwright.skills.predicate import parse_predicate
from kernelwright.skills.yaml_text import read_yaml


def load_skills(folder: Path | None = None) -> dict[str, Skill]:
    """Return the skills of a folder by name, in order of name.

    Args:
        folder: folder of ``*.md`` files, at any depth; None: the library that comes with the package.

    Raises:
        UserError: the folder has no skills, two files of one name, or a file that breaks the format; names
            the file and the field.
    """
    root = folder if folder is not None else library_folder()
    files: dict[str, Path] = {}
    for file in sorted(root.rglob("*.md"), key=lambda file: (file.stem, file)):
        if file.stem in files:
            raise UserError(f"{file}: name: {file.stem!r} is also the name of {files[file.stem]}")
        files[file.stem] = file
    if not files:
        raise UserError(f"no skills in {root}: expected files NAME.md with YAML front matter")
    return {name: parse_skill(file.read_text(encoding="utf-8"), file) for name, file in files.items()}


def library_folder() -> Path:
    """Return the folder of the skills that come with the package."""
    return Path(str(resources.files("kernelwright.skills") / "library"))


@lru_cache(maxsize=1024)
def parse_skill(text: str, file: Path) -> Skill:
    """Return the skill that the text of ``file`` describes, the same one every time.

    Raises UserError, see load_skills.
    """
    header, body = _split(text, file)
    fields = {**header, "body": body.strip()}
    for field, read in _READERS.items():
        if field in fields:
            fields[field] = _read_each(fields[field], read, f"{file}: {field}")
    try:
        skill = Skill.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{file}: {where}: {first['msg']}") from error
    if skill.name != file.stem:
        raise UserError(f"{file}: name: {skill.name!r} must be the file's name, {file.stem!r}")
    return skill


def _split(text: str, file: Path) -> tuple[dict[str, Any], str]:
    """Separate the front matter from the body."""
    parts = text.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise UserError(f"{file}: front matter: the file must begin with YAML between two lines '---'")
    try:
        header = read_yaml(parts[1])
    except yaml.YAMLError as error:
        raise UserError(f"{file}: front matter: not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(header, dict) or "body" in header:
        raise UserError(f"{file}: front matter: expected a mapping of fields without 'body'")
    return header, parts[2]


def _read_each(items: object, read: Callable[[object], object], where: str) -> list[object]:
    if not isinstance(items, list):
        raise UserError(f"{where}: expected a list")
    try:
        return [read(item) for item in items]
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error


def _predicate(item: object) -> object:
    if not isinstance(item, str):
        raise ValueError(f"{item!r} is not 'metric op value'")
    return parse_predicate(item)


def _signal(item: object) -> object:
    if not isinstance(item, dict) or "when" not in item:
        raise ValueError(f"{item!r} is not '{{when: PREDICATE, weight: NUMBER}}'")
    return {**item, "when": _predicate(item["when"])}


_READERS: dict[str, Callable[[object], object]] = {
    "requires": _predicate,
    "forbids": _predicate,
    "signals": _signal,
}
"""Fields whose items have a text form of their own."""
