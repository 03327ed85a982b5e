"""Where things are kept, from the environment."""

from pathlib import Path

from kernelwright.settings import load_secret, load_settings


def test_the_xdg_folders_are_the_default() -> None:
    settings = load_settings({"HOME": "/home/someone"})
    assert settings.cache_dir == Path("/home/someone/.cache/kernelwright")
    assert settings.store == "/home/someone/.local/share/kernelwright/runs.db"


def test_our_own_variables_win() -> None:
    settings = load_settings(
        {"HOME": "/h", "XDG_CACHE_HOME": "/c", "KERNELWRIGHT_CACHE": "/mine", "KERNELWRIGHT_STORE": "x.db"}
    )
    assert (settings.cache_dir, settings.store) == (Path("/mine"), "x.db")
    assert load_settings({"HOME": "/h", "XDG_CACHE_HOME": "/c"}).cache_dir == Path("/c/kernelwright")


def test_an_empty_secret_is_none() -> None:
    assert load_secret("TOKEN", {"TOKEN": "abc"}) == "abc"
    assert load_secret("TOKEN", {"TOKEN": ""}) is None
    assert load_secret("TOKEN", {}) is None
