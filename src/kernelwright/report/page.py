"""Shared by the HTML pages: templates, and files that are embedded in a page."""

from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from kernelwright.report.measures import fact


@cache
def templates(package: str = "kernelwright.report") -> Environment:
    """Return a package's templates, which escape all values; the filter ``fact`` spells facts for people."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fact"] = fact
    return environment


def asset(name: str) -> str:
    """Return a style sheet or script of the package."""
    return files("kernelwright.report").joinpath("templates", name).read_text(encoding="utf-8")
