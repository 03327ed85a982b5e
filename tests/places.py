"""Settings for tests: runs and what they keep inside one folder."""

from dataclasses import replace
from pathlib import Path

from kernelwright.settings import Settings, load_settings


def settings_in(folder: Path) -> Settings:
    """Return the settings of all tests with places of a test's own; only builds and peaks are shared.

    Runs compare with eager alone, unless they name another baseline.
    """
    return replace(
        load_settings(),
        data_dir=folder / "data",
        store=str(folder / "runs.db"),
        defaults={"baselines": ("eager",)},
    )
