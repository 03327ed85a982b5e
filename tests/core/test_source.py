"""The program of a source: what is left without comments, docstrings and layout, and never means another."""

import ast
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernelwright.core import source as source_module
from kernelwright.core.candidate import Candidate
from kernelwright.core.cpp_source import without_comments
from kernelwright.core.plan import Move, Plan
from kernelwright.core.source import MAX_TOKENS, NATIVE_SOURCES, normalise
from kernelwright.core.target import TargetName

KERNEL = '''"""A kernel."""
import torch

CPP_SOURCE = r"""
// adds
extern "C" void run(float* y) { /* in place */
  y[0] += 1;
}
"""


class ModelNew(torch.nn.Module):
    """Plan: vectorise (answers the bottleneck compute)."""

    def forward(self, x):  # one pass
        "Return it."
        return (x + 1)


LIBRARY = build([CPP_SOURCE])
'''
SAME = {
    "comment": KERNEL.replace("# one pass", "# two passes"),
    "docstring": KERNEL.replace("compute", "memory_bandwidth"),
    "no docstring": KERNEL.replace('"""A kernel."""\n', ""),
    "blank lines": KERNEL.replace("\n\n\n", "\n"),
    "brackets": KERNEL.replace("(x + 1)", "x + 1"),
    "indentation": re.sub(r"^( +)", r"\1\1", KERNEL, flags=re.M).replace("    y[0]", "  y[0]"),
    "comment of C++": KERNEL.replace("// adds", "// adds one"),
    "no comment of C++": KERNEL.replace("// adds\n", "").replace("/* in place */", ""),
}
OTHER = {
    "constant": KERNEL.replace("x + 1", "x + 2"),
    "constant of C++": KERNEL.replace("+= 1", "+= 2"),
    "name": KERNEL.replace("LIBRARY", "BUILT"),
    "order": KERNEL.replace("(x + 1)", "(1 + x)"),
    "a string that is code": KERNEL.replace("build([", "build(['// adds', "),
}
FOLDERS = ("tasks/suite", "corpus/cheats", "corpus/hostile", "corpus/tasks", "../../lab/honest_kernels")
ROOT = Path(str(files("kernelwright")))
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("what", SAME)
def test_prose_and_layout_make_no_other_candidate(what: str) -> None:
    one, other = Candidate(source=KERNEL), Candidate(source=SAME[what])
    assert one.source != other.source and one.program == other.program and one.id == other.id


@pytest.mark.parametrize("what", OTHER)
def test_code_makes_another_candidate(what: str) -> None:
    assert Candidate(source=KERNEL).id != Candidate(source=OTHER[what]).id


def test_plan_parents_and_role_are_no_part_of_the_id_and_the_target_is() -> None:
    plan = Plan(moves=(Move(skill="unroll", why="because"),))
    seed = Candidate(source=KERNEL)
    assert seed.id == Candidate(source=KERNEL, plan=plan, parents=("p",), role="coder").id
    assert seed.id != Candidate(source=KERNEL, target=TargetName(device="cuda", language="triton")).id


def test_a_copy_with_another_source_is_another_candidate() -> None:
    seed = Candidate(source=KERNEL)
    changed = seed.model_copy(update={"source": OTHER["constant"]})
    assert seed.id != changed.id == Candidate(source=OTHER["constant"]).id


def test_a_candidate_shown_without_its_source_keeps_its_id() -> None:
    seed = Candidate(source=KERNEL)
    shown = seed.without_source(Plan())
    assert shown.source == "" and shown.id == seed.id and shown.program == normalise("")


def undocumented(source: str) -> str:
    """Return the tree of a source without docstrings, C++ comments taken out as well."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [s for s in body if not (isinstance(s, ast.Expr) and _is_text(s.value))]
            node.body = kept or ([] if node is tree else [ast.Pass()])  # type: ignore[attr-defined]
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in NATIVE_SOURCES:
            node.value = ast.Constant(without_comments(ast.literal_eval(node.value)))
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_every_task_and_specimen_keeps_its_meaning() -> None:
    n_as_written = 0
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        program = normalise(source)
        assert normalise(program) == program, path
        if program == source.strip() + "\n":
            n_as_written += 1
        else:
            assert undocumented(source) == undocumented(program), path
    assert len(FILES) > 200 and n_as_written < 5


NAMES = st.sampled_from(["x", "y", "Model", "_hidden", "f"])
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=12)
COMMENTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=12)
STATEMENTS = st.one_of(
    st.builds("{} = {!r}".format, NAMES, WORDS),
    st.builds("{!r}".format, WORDS),
    st.builds("{} = {} + ({} - {})  # {}".format, NAMES, NAMES, st.integers(), st.floats(), COMMENTS),
    st.builds("{0} = f'{{{0}!r:>{1}}} and {{ {0} }}'".format, NAMES, st.integers(1, 9)),
    st.builds("# {}".format, COMMENTS),
    st.builds("if {}:\n    {!r}\nelse:\n    {!r}".format, NAMES, WORDS, WORDS),
    st.builds("def {}(x):\n    {!r}\n    {!r}\n    return {!r}".format, NAMES, WORDS, WORDS, WORDS),
    st.builds("try:\n    pass\nfinally:\n    {!r}".format, WORDS),
)


@given(st.lists(STATEMENTS, max_size=6))
def test_generated_sources_run_as_before(statements: list[str]) -> None:
    source = "\n".join(statements)
    program = normalise(source)
    assert normalise(program) == program
    assert _outcome(program) == _outcome(source)


def _outcome(source: str) -> dict[str, str]:
    """Return what a source leaves behind when it runs, or how it ends."""
    left: dict[str, object] = {"x": 1, "y": 2, "Model": 3, "_hidden": 4, "f": 5}
    try:
        exec(source, left)
    except Exception as error:
        return {"error": type(error).__name__}
    for name, value in left.items():
        if callable(value) and name != "__builtins__":
            left[name] = value(1)
    shown = {name: repr(value) for name, value in left.items() if not name.startswith("__")}
    return {name: re.sub(r"0x[0-9a-f]+", "somewhere", text) for name, text in shown.items()}


@given(WORDS)
@example("00\x1f")
@example("\t00")
@example(" \n 00")
def test_any_text_has_a_program_of_its_own(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    "source",
    [
        "not python at all (",
        '"""Kernel text."""\nSOURCE = __doc__  # read',
        "import inspect\n# counted\nSOURCE = inspect.getsource(f)",
        "@torch.jit.script\ndef f(x):\n    # type: (Tensor) -> Tensor\n    return x",
    ],
)
def test_a_source_that_may_read_its_own_prose_is_kept(source: str) -> None:
    assert normalise(f"\n{source}\n\n") == source + "\n"


def test_cpp_that_is_taken_apart_keeps_its_comments() -> None:
    source = KERNEL.replace("build([CPP_SOURCE])", "build(CPP_SOURCE.split('// adds'))")
    assert "// adds" in normalise(source) and "// adds" not in normalise(KERNEL)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int a; // b\nint c;\n", "int a;\nint c;\n"),
        ("int/* b */a;\n", "int a;\n"),
        ('const char* s = "// no"; // yes\n', 'const char* s = "// no";\n'),
        ('auto s = R"x(/* no */ )" )x"; /* yes */\n', 'auto s = R"x(/* no */ )" )x";\n'),
        ("char c = '\"'; // yes\nlong n = 1'000'000; // \"\n", "char c = '\"';\nlong n = 1'000'000;\n"),
        ("int a; // goes on \\\nint b;\nint c;\n", "int a;\nint c;\n"),
        ("#define F(x) \\\n  x /* a\n b */ + 1\n\n\nint a;\n", "#define F(x) \\\n x + 1\nint a;\n"),
        ("#define F \\\n\nint a;\n", "#define F \\\n\nint a;\n"),
    ],
)
def test_comments_of_cpp_go_and_nothing_else(text: str, expected: str) -> None:
    assert without_comments(text) == expected == without_comments(expected)


@pytest.mark.parametrize(
    "text",
    [
        "int a; /* open",
        "int n = __LINE__; // a",
        "#error don't // a",
        "/\\\n* a */ int b;",
        "#include <a//b.h>",
    ],
)
def test_cpp_that_leaves_a_doubt_is_kept(text: str) -> None:
    assert without_comments(text) == text


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_preprocessor_sees_the_same_cpp() -> None:
    texts = [text for path in FILES for text in _cpp_of(path)][:40]
    assert len(texts) > 10
    for text in texts:
        assert _preprocessed(without_comments(text)) == _preprocessed(text)


def _cpp_of(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [text for text in texts if isinstance(text, str) and ";\n" in text and "{\n" in text]


def _preprocessed(text: str) -> list[str]:
    """Return the words that are left for the compiler; headers are left out."""
    lines = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#include"))
    command = ["g++", "-E", "-P", "-x", "c++", "-"]
    return subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout.split()


LONG = {
    "statements": "a=1\n" * (MAX_TOKENS // 4),
    "a list": "a = [" + "1," * (MAX_TOKENS // 2) + "]\n",
    "an open bracket": "a = [" + "1," * MAX_TOKENS,
    "behind a comment that looks like a string": "#'''\n" + "f(g)\n" * (MAX_TOKENS // 5) + "#'''\n",
}


@pytest.mark.parametrize("case", LONG)
def test_a_source_that_takes_long_is_not_taken_apart(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(source_module.ast, "parse", lambda text: parsed.append(text))
    assert normalise(LONG[case]) == LONG[case].strip() + "\n"
    assert parsed == []


def test_long_strings_are_one_token() -> None:
    text = "CPP_SOURCE = '''\n" + "y[0] += 1;\n" * MAX_TOKENS + "'''\n"
    assert normalise(f"# made\n{text}") == normalise(text) != text


@given(st.text(st.characters(exclude_categories=()), max_size=20))
@example("\ud800")
@example("x = '\ud83d\ude00'")
def test_every_text_can_be_stored_and_sent(text: str) -> None:
    candidate = Candidate(source=text)
    assert Candidate.model_validate_json(candidate.model_dump_json()).id == candidate.id
    if not any("\ud800" <= c <= "\udfff" or c == "\0" for c in text):
        assert candidate.source == text
