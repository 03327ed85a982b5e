"""A hook of MkDocs: links that leave ``docs/`` lead to the file in the repository."""

import posixpath
import re
from typing import Any

LINK = re.compile(r"(!?\[[^\]]*\]\()(\.\./[^)\s]+)(\))")
BRANCH = "main"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the page's text with such links changed; the others stay for MkDocs to check."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    return LINK.sub(lambda found: _in_the_repository(found, folder, config.extra["repository"]), markdown)


def _in_the_repository(found: re.Match[str], folder: str, repository: str) -> str:
    opening, target, closing = found.groups()
    path = posixpath.normpath(posixpath.join(folder, target))
    if path.startswith("docs/"):
        return found.group()
    raw = "?raw=true" if opening.startswith("!") else ""
    return f"{opening}{repository.rstrip('/')}/blob/{BRANCH}/{path}{raw}{closing}"
