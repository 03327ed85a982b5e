"""Where a store is: a path or a URL, and how it is shown. Nothing else shows a store's address."""

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote_plus

from sqlalchemy import exc
from sqlalchemy.engine import URL, make_url

from kernelwright.core.errors import StoreError

STORE_VARIABLE = "KERNELWRIGHT_STORE"
"""Names the store where no ``--store`` does."""
_SECRET = re.compile(r"password|passwd|pwd|secret|token", re.IGNORECASE)
_POSTGRES = ("postgres", "postgresql")
_HIDDEN = "***"


def parse_address(where: Path | str) -> URL:
    """Return the URL of a store; a plain path names an SQLite file, ``postgresql://`` means psycopg.

    Raises:
        StoreError: it looks like a URL and is none.
    """
    if not (isinstance(where, str) and "://" in where):
        return URL.create("sqlite", database=str(Path(where).expanduser().absolute()))
    try:
        url = make_url(where)
    except (exc.ArgumentError, ValueError) as error:
        raise StoreError(
            f"not a database URL: {where.partition('://')[0]}://...; write it as "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from error
    return url.set(drivername="postgresql+psycopg") if url.drivername in _POSTGRES else url


def is_file(url: URL) -> bool:
    """Tell whether the store is an SQLite file."""
    return url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")


def shown_address(where: Path | str | URL) -> str:
    """Return a store's address as people may see it: the path of a file, a URL without its passwords."""
    url = where if isinstance(where, URL) else parse_address(where)
    if is_file(url):
        return str(url.database)
    hidden = dict.fromkeys(_secrets(url), _HIDDEN)
    shown = url.update_query_dict(hidden).render_as_string(hide_password=True)
    return shown.replace(quote_plus(_HIDDEN), _HIDDEN)


def without_passwords(text: str, url: URL) -> str:
    """Return what a driver said with every password of the URL struck out."""
    for secret in (url.password, *_secrets(url).values()):
        if isinstance(secret, str) and secret:
            text = text.replace(secret, _HIDDEN)
    return text


def has_password(where: str) -> bool:
    """Tell whether the address holds something that must not be shown."""
    if "://" not in where:
        return False
    url = parse_address(where)
    return bool(url.password or _secrets(url))


def _secrets(url: URL) -> dict[str, object]:
    """Return the passwords among the options after the question mark."""
    return {name: value for name, value in url.query.items() if _SECRET.search(name)}


def shown_command(words: Iterable[str]) -> str:
    """Return a command line as people may see it: a store's address with a password is left out of it."""
    shown: list[str] = []
    for word in words:
        option, is_joined, value = word.partition("=")
        where = value if is_joined and option.startswith("--") else word
        if not _is_secret(where):
            shown.append(shlex.quote(word))
        elif where is word:
            shown.append(f'"${STORE_VARIABLE}"')
        else:
            shown.append(f'{option}="${STORE_VARIABLE}"')
    return " ".join(shown)


def _is_secret(word: str) -> bool:
    try:
        return has_password(word)
    except StoreError:
        return "@" in word  # a URL that does not parse may hold one all the same
