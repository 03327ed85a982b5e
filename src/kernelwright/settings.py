"""Where things are kept, and what commands take when nobody says otherwise.

What wins, from the strongest: the command line or a keyword, the environment, the project's file, the user's
file, what is built in. docs/configuration.md has the keys. Secrets come from the environment alone.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelwright.core.errors import UserError
from kernelwright.core.options import OPTIONS, Option

TOKEN_VARIABLE = "KERNELWRIGHT_SERVE_TOKEN"
"""Names the bearer token of an evaluation service, on both ends."""
SANDBOX_VARIABLE = "KERNELWRIGHT_REQUIRE_SANDBOX"
"""Names the weakest sandbox tier under which candidates are judged at all."""
PREFIX = "KERNELWRIGHT_"
PROJECT_FILES = ("kernelwright.toml", "pyproject.toml")
"""Looked for in the working directory, then upwards; of two in one folder the first counts."""
TABLE = "kernelwright"
PLACES = ("cache", "data", "store")
"""Keys that are no command's options."""
FINAL_SECONDS = Option(
    "final_seconds", "--final-seconds", "A final ends with its fewest pairs of processes where the most "
    "would take longer; finalists are timed in turn for no longer.", "Judging", kind=float, minimum=0.0,
    default="120", is_configurable=True,
)  # fmt: skip
"""A key that is no command's option, either."""
CONFIGURABLE: dict[str, Option] = {o.key: o for o in (FINAL_SECONDS, *reversed(OPTIONS)) if o.is_configurable}
_SECRETS = ("api_key", "key", "token", "password", "serve_token")
_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True)
class Settings:
    """Resolved once, then passed on."""

    cache_dir: Path
    """Compiled kernels and measured peaks: may be deleted at any time."""
    data_dir: Path
    """Pickled live modules and the default store."""
    store: str
    """Path of a SQLite file, or an SQLAlchemy URL."""
    require_sandbox: str | None = None
    """Refuse to judge in a weaker sandbox than this tier; None: whatever there is."""
    confine_tasks: bool = False
    """Tasks come from strangers: the referee runs their references in the sandbox too."""
    profile_unconfined: bool = False
    """Candidates of models are profiled, which runs them outside the sandbox."""
    final_seconds: float | None = None
    """See FINAL_SECONDS; None: the referee's own."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What requests take where nobody says otherwise, by ``Option.key``."""


def load_settings(environ: Mapping[str, str] | None = None, folder: Path | None = None) -> Settings:
    """Read the configuration files and the environment; places follow the XDG base directories.

    Args:
        environ: default: the process's.
        folder: where the project's file is looked for, and upwards; default: the working directory.

    Raises:
        UserError: a file cannot be read, or a key or a value is none of those there are.
    """
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME", "~")).expanduser()
    user_file = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "kernelwright" / "config.toml"
    known: dict[str, Any] = {}
    for file in (user_file, _project_file(folder or Path.cwd())):
        known |= {} if file is None else _from_file(file)
    known |= dict(_from_environment(env))
    cache = Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "kernelwright"
    data = Path(env.get("XDG_DATA_HOME") or home / ".local" / "share") / "kernelwright"
    data_dir = Path(known.pop("data", data)).expanduser()
    return Settings(
        cache_dir=Path(known.pop("cache", cache)).expanduser(),
        data_dir=data_dir,
        store=known.pop("store", str(data_dir / "runs.db")),
        require_sandbox=known.get("require_sandbox"),
        final_seconds=known.pop("final_seconds", None),
        defaults=known,
    )


def _project_file(folder: Path) -> Path | None:
    """Return the nearest file of a project that speaks of us."""
    start = folder.resolve()
    for place in (start, *start.parents):
        for name in PROJECT_FILES:
            file = place / name
            if file.is_file() and (name != "pyproject.toml" or _table(file) is not None):
                return file
    return None


def _table(file: Path) -> dict[str, Any] | None:
    """Return what a file says of us, None where a pyproject.toml says nothing."""
    try:
        found: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{file}: cannot be read as TOML ({error})") from error
    if file.name == "pyproject.toml":
        tool = found.get("tool", {})
        found = tool.get(TABLE) if isinstance(tool, dict) else None
        if not isinstance(found, dict):
            return None
    return dict(found)


def _from_file(file: Path) -> dict[str, Any]:
    """Return what a file says, by key; a relative path is relative to the file."""
    said: dict[str, Any] = {}
    for name, value in (_table(file) or {}).items() if file.is_file() else ():
        key = _known(name.replace("-", "_"), file)
        said[key] = _value(key, value, f"{file}: {name}")
        if key in PLACES and "://" not in value:
            said[key] = str(file.parent / Path(value).expanduser())
    return said


def _known(key: str, file: Path) -> str:
    if key in CONFIGURABLE or key in PLACES:
        return key
    if key in _SECRETS:
        raise UserError(f"{file}: {key}: a secret is never read from a file; put it into the environment")
    near = difflib.get_close_matches(key, (*CONFIGURABLE, *PLACES), n=1)
    hint = f"did you mean {near[0].replace('_', '-')}?" if near else "docs/configuration.md lists the keys"
    raise UserError(f"{file}: unknown key {key.replace('_', '-')!r}; {hint}")


def _from_environment(env: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield what the environment says; variables of ours that are no keys are other programs' business."""
    for key in (*PLACES, *CONFIGURABLE):
        name = f"{PREFIX}{key.upper()}"
        text = env.get(name)
        if not text:
            continue
        option = CONFIGURABLE.get(key)
        value: Any = text
        if option is not None and option.many:
            value = text.split()
        elif option is not None and option.kind is not str:
            value = _SWITCH.get(text.lower(), text) if option.kind is bool else _number(option, text)
        yield key, _value(key, value, name)


def _number(option: Option, text: str) -> Any:
    try:
        return option.kind(text)
    except ValueError:
        return text


def _value(key: str, value: Any, where: str) -> Any:
    """Return a value as its option takes it; raises UserError."""
    option = CONFIGURABLE.get(key)
    kind = str if option is None else option.kind
    values = value if option is not None and option.many else [value]
    kinds = (float, int) if kind is float else (kind,)
    if not isinstance(values, list) or any(
        not isinstance(one, kinds) or (isinstance(one, bool) and kind is not bool) for one in values
    ):
        wanted = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise UserError(f"{where}: expected {wanted}{' in a list' if values is value else ''}, not {value!r}")
    if option is not None:
        if option.choices and value not in option.choices:
            raise UserError(f"{where}: {value!r} is none of {', '.join(option.choices)}")
        if option.minimum is not None and value < option.minimum:
            raise UserError(f"{where}: {value!r} is less than {option.minimum:g}")
    return value


def load_secret(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return a secret from the environment, None when it is unset or empty. Never log or store it."""
    return (os.environ if environ is None else environ).get(name) or None
