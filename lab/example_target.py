"""Leaves the example of a third-party target as an installation leaves it, without an installer."""

import tomllib
from pathlib import Path

from kernelwright.targets import registry

EXAMPLE = Path(__file__).parents[1] / "examples" / "numpy_target"


def install(folder: Path) -> Path:
    """Leave what an installation of the example leaves, from its own pyproject; return where it is found."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / "kernelwright_numpy_target-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    entries = project["entry-points"][registry.GROUP]
    lines = [f"[{registry.GROUP}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (folder / "numpy_target").symlink_to(EXAMPLE / "src" / "numpy_target")
    return folder
