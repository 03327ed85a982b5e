"""Settings for tests: runs and what they keep inside one folder, and measured no wider than a test needs."""

from pathlib import Path

from kernelwright.settings import Settings, load_settings

FINAL_S = 5.0
"""As in ``tests/conftest.py``: no test is about the width of an interval."""


def settings_in(folder: Path) -> Settings:
    """Return settings of which only builds and this machine's peaks are shared with other tests.

    Runs compare with eager alone, unless they name another baseline.
    """
    return Settings(
        cache_dir=load_settings().cache_dir,
        data_dir=folder / "data",
        store=str(folder / "runs.db"),
        final_seconds=FINAL_S,
        defaults={"baselines": ("eager",)},
    )
