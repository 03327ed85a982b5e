"""Where things are kept. The environment is read here and nowhere else."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TOKEN_VARIABLE = "KERNELWRIGHT_SERVE_TOKEN"
"""Names the bearer token of an evaluation service, on both ends."""


@dataclass(frozen=True)
class Settings:
    """Resolved once, then passed on."""

    cache_dir: Path
    """Compiled kernels and measured peaks: may be deleted at any time."""
    data_dir: Path
    """Pickled live modules and the default store."""
    store: str
    """Path of a SQLite file, or an SQLAlchemy URL."""


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read ``KERNELWRIGHT_CACHE``, ``KERNELWRIGHT_DATA`` and ``KERNELWRIGHT_STORE``.

    Defaults follow the XDG base directories.
    """
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME", "~")).expanduser()
    cache = Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "kernelwright"
    data = Path(env.get("XDG_DATA_HOME") or home / ".local" / "share") / "kernelwright"
    cache_dir = Path(env.get("KERNELWRIGHT_CACHE") or cache)
    data_dir = Path(env.get("KERNELWRIGHT_DATA") or data)
    store = env.get("KERNELWRIGHT_STORE") or str(data_dir / "runs.db")
    return Settings(cache_dir=cache_dir, data_dir=data_dir, store=store)


def load_secret(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return a secret from the environment, None when it is unset or empty. Never log or store it."""
    return (os.environ if environ is None else environ).get(name) or None
