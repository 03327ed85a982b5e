"""Where settings come from, and which of them wins."""

from pathlib import Path

import pytest

from kernelwright.core.errors import UserError
from kernelwright.referee.settings import make_referee_settings
from kernelwright.settings import CONFIGURABLE, Settings, load_secret, load_settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home, with a project in it."""
    (tmp_path / "project" / "inner").mkdir(parents=True)
    return tmp_path


def load(home: Path, **environ: str) -> Settings:
    return load_settings({"HOME": str(home), **environ}, home / "project" / "inner")


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_places_follow_the_home_and_our_own_variables_win(home: Path) -> None:
    settings = load(home)
    assert settings.cache_dir == home / ".cache/kernelwright"
    assert settings.store == str(home / ".local/share/kernelwright/runs.db")
    settings = load(home, KERNELWRIGHT_CACHE="/mine", KERNELWRIGHT_STORE="x.db")
    assert (settings.cache_dir, settings.store) == (Path("/mine"), "x.db")
    assert load(home, XDG_CACHE_HOME="/c").cache_dir == Path("/c/kernelwright")


def test_the_environment_wins_over_the_project_and_that_over_the_user(home: Path) -> None:
    write(home / ".config/kernelwright/config.toml", 'recipe = "a"\nteam = "a"\nseed = 1\nstore = "a.db"\n')
    write(home / "project/pyproject.toml", '[tool.kernelwright]\nrecipe = "b"\nteam = "b"\nstore = "b.db"\n')
    settings = load(home, KERNELWRIGHT_RECIPE="c")
    assert settings.defaults == {"recipe": "c", "team": "b", "seed": 1}
    assert settings.store == str(home / "project/b.db"), "relative to the file"
    assert load(home, XDG_CONFIG_HOME=str(home / "elsewhere")).defaults == {"recipe": "b", "team": "b"}


def test_the_nearest_file_of_a_project_counts_and_our_own_before_pyproject(home: Path) -> None:
    write(home / "project/kernelwright.toml", "seed = 1\n")
    assert load(home).defaults == {"seed": 1}
    write(home / "project/inner/pyproject.toml", "[project]\nname = 'none of ours'\n")
    assert load(home).defaults == {"seed": 1}
    write(home / "project/inner/pyproject.toml", "[tool.kernelwright]\nseed = 2\n")
    assert load(home).defaults == {"seed": 2}
    write(home / "project/inner/kernelwright.toml", "seed = 3\n")
    assert load(home).defaults == {"seed": 3}


def test_values_have_the_types_of_their_options(home: Path) -> None:
    text = 'budget-evaluations = 5\nbudget_usd = 2\nbaseline = ["eager"]\ninstrument = true\n'
    write(home / "project/kernelwright.toml", text)
    read = {"budget_evaluations": 5, "budget_usd": 2, "baseline": ["eager"], "instrument": True}
    assert load(home).defaults == read
    environ = {
        "KERNELWRIGHT_BUDGET_EVALUATIONS": "6",
        "KERNELWRIGHT_BUDGET_USD": "0.5",
        "KERNELWRIGHT_BASELINE": "eager torch_compile",
        "KERNELWRIGHT_INSTRUMENT": "no",
        "KERNELWRIGHT_API_KEY": "a secret of another reader's",
    }
    said = {"budget_evaluations": 6, "budget_usd": 0.5, "baseline": ["eager", "torch_compile"]}
    assert load(home, **environ).defaults == {**said, "instrument": False}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recipy = 'stark'", "kernelwright.toml: unknown key 'recipy'; did you mean recipe?"),
        ("zzz = 1", "unknown key 'zzz'; docs/configuration.md lists the keys"),
        ("api_key = 'x'", "api_key: a secret is never read from a file"),
        ("recipe = 3", "recipe: expected text, not 3"),
        ("seed = true", "seed: expected a whole number, not True"),
        ("baseline = 'eager'", "baseline: expected text in a list, not 'eager'"),
        ("budget-evaluations = 0", "budget-evaluations: 0 is less than 1"),
        ("library-calls = 'some'", "'some' is none of allowed, forbidden"),
        ("recipe = ", "cannot be read as TOML"),
        ("store = 3", "store: expected text, not 3"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line_with_file_and_key(home: Path, text: str, said: str) -> None:
    write(home / "project/kernelwright.toml", text + "\n")
    with pytest.raises(UserError) as caught:
        load(home)
    assert said in str(caught.value) and "kernelwright.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_variable_that_makes_no_sense_is_named(home: Path) -> None:
    with pytest.raises(UserError, match="KERNELWRIGHT_SEED: expected a whole number, not 'x'"):
        load(home, KERNELWRIGHT_SEED="x")
    with pytest.raises(UserError, match="KERNELWRIGHT_REQUIRE_SANDBOX: 'x' is none of namespaces"):
        load(home, KERNELWRIGHT_REQUIRE_SANDBOX="x")


def test_how_long_finals_may_take_reaches_the_referee(home: Path) -> None:
    assert load(home).final_seconds is None
    short = load(home, KERNELWRIGHT_FINAL_SECONDS="7")
    assert make_referee_settings(short).final_seconds == 7.0
    with pytest.raises(UserError, match=r"KERNELWRIGHT_FINAL_SECONDS: -1\.0 is less than 0"):
        load(home, KERNELWRIGHT_FINAL_SECONDS="-1")


def test_every_key_is_documented() -> None:
    page = (Path(__file__).parent.parent / "docs/configuration.md").read_text(encoding="utf-8")
    keys = [key.replace("_", "-") for key in (*CONFIGURABLE, "cache", "data", "store")]
    assert [key for key in keys if f"| `{key}` |" not in page] == []


def test_an_empty_secret_is_none() -> None:
    assert load_secret("TOKEN", {"TOKEN": "abc"}) == "abc"
    assert load_secret("TOKEN", {"TOKEN": ""}) is None
    assert load_secret("TOKEN", {}) is None
