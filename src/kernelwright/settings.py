"""Where things are kept. The environment is read here and nowhere else."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TOKEN_VARIABLE = "KERNELWRIGHT_SERVE_TOKEN"
"""Names the bearer token of an evaluation service, on both ends."""


SANDBOX_VARIABLE = "KERNELWRIGHT_REQUIRE_SANDBOX"
"""Names the weakest sandbox tier under which candidates are judged at all."""


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


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read ``KERNELWRIGHT_CACHE``, ``_DATA``, ``_STORE`` and ``_REQUIRE_SANDBOX``.

    Defaults follow the XDG base directories.
    """
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME", "~")).expanduser()
    cache = Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "kernelwright"
    data = Path(env.get("XDG_DATA_HOME") or home / ".local" / "share") / "kernelwright"
    cache_dir = Path(env.get("KERNELWRIGHT_CACHE") or cache)
    data_dir = Path(env.get("KERNELWRIGHT_DATA") or data)
    store = env.get("KERNELWRIGHT_STORE") or str(data_dir / "runs.db")
    wanted = env.get(SANDBOX_VARIABLE) or None
    return Settings(cache_dir=cache_dir, data_dir=data_dir, store=store, require_sandbox=wanted)


def require_sandbox(tier: str) -> None:
    """Have every later ``load_settings`` of this process, and of those it starts, require this tier."""
    os.environ[SANDBOX_VARIABLE] = tier


def load_secret(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return a secret from the environment, None when it is unset or empty. Never log or store it."""
    return (os.environ if environ is None else environ).get(name) or None
