"""What the HTML pages have in common: templates, and files that go into the page itself."""

from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def templates() -> Environment:
    """Return the templates; everything that they are given is escaped."""
    return Environment(
        loader=PackageLoader("kernelwright.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(name: str) -> str:
    """Return a style sheet or script of ours."""
    return files("kernelwright.report").joinpath("templates", name).read_text(encoding="utf-8")
