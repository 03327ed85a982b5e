"""The one renderer of HTML pages: templates that escape all values, one style sheet, one script."""

import re
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kernelwright.core.visible import visible_lines
from kernelwright.report.measures import fact

OWN = "kernelwright.report"
LONG_NUMBER = re.compile(r"-?\d+\.\d{5,}(?:e[+-]?\d+)?")


def render(template: str, package: str = OWN, **values: Any) -> str:
    """Return a page that needs nothing from elsewhere.

    Args:
        template: extends ``page.html.j2`` of this package.
        package: the package whose folder ``templates`` holds it.
        values: what it shows; only charts and coloured sources are markup, all else is escaped.
    """
    page = _templates(package).get_template(template)
    return page.render(stylesheet=stylesheet(), script=asset("report.js"), **values)


@cache
def _templates(package: str) -> Environment:
    """Return a package's templates beside those of all pages.

    The filter ``fact`` spells facts for people, ``brief`` shortens the long numbers in a sentence.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, OWN))]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fact"] = fact
    environment.filters["brief"] = _brief
    return environment


def _visible(value: Any) -> Any:
    """Return a value to be escaped and shown; hidden characters in text are replaced by their names."""
    return visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _brief(text: str) -> str:
    return LONG_NUMBER.sub(lambda found: f"{float(found.group()):.4g}", text)


@cache
def stylesheet() -> str:
    """Return the style sheet of every page: that of charts, then that of text."""
    return asset("chart.css") + asset("report.css")


def asset(name: str) -> str:
    """Return a style sheet or script of the package."""
    return files(OWN).joinpath("templates", name).read_text(encoding="utf-8")
