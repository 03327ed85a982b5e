"""Leaves a third party's package as an installation leaves it, without an installer."""

import tomllib
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "numpy_target"


def install(folder: Path, package: Path = EXAMPLE) -> Path:
    """Leave what an installation of the package leaves, from its own pyproject; return where it is found."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / f"{project['name'].replace('-', '_')}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    source = package / "src" if (package / "src").is_dir() else package
    for found in source.iterdir():
        if found.suffix == ".py" or (found / "__init__.py").exists():
            (folder / found.name).symlink_to(found.resolve())
    return folder
