"""A saved folder: complete, checked, loaded without Kernelwright and without a compiler."""

import hashlib
import json
import os
import pickle
import platform
import shutil
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import delivered, printed
from tests.delivery.originals import Configured, Norm, Sized, Turned

import kernelwright
from kernelwright.core.errors import UserError
from kernelwright.core.task import Task
from kernelwright.delivery.making import deliver
from kernelwright.delivery.runtime.folder import digest_of_manifest
from kernelwright.delivery.runtime.library import misfit, this_machine
from kernelwright.delivery.runtime.weights import read_weights, write_weights
from kernelwright.delivery.saving import runtime_texts, save, write_folder

ROOT = Path(__file__).parent.parent.parent
SHAPE = (4, 32)
FILE = """
import torch
from torch import nn

WIDTH = 32


class Helper(nn.Module):
    def forward(self, x):
        return torch.relu(x)


class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(WIDTH))
        self.helper = Helper()
        self.factor = factor

    def forward(self, x):
        return self.helper(x * self.scale) * self.factor


def get_inputs():
    return [torch.randn(4, WIDTH)]


def get_init_inputs():
    return [3.0]
"""


def x() -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Saved folders by name."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        cases = {
            "live": delivered(Norm(32).eval(), (x(),), home),
            "configured": delivered(Configured().eval(), (x(),), home),
        }
        task = Task(name="scaled", source=FILE)
        cases["file"] = deliver(printed(task), task)
        with torch.no_grad():
            torch.save((x(), cases["file"].module(x())), home / "expected.pt")
        yield {name: save(d, home / name, cache_dir=home) for name, d in cases.items()} | {"home": home}


@pytest.fixture
def live(folders: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders["live"], tmp_path / "live"))


def test_it_holds_what_is_promised(folders: dict[str, Path]) -> None:
    manifest = json.loads((folders["live"] / "manifest.json").read_text())
    assert manifest["library"]["features"] and manifest["library"]["libc"]
    assert (
        "the user's own" in manifest["licence"]
        and "the user's own" in (folders["live"] / "LICENCE").read_text()
    )
    names = {path.relative_to(folders["live"]).as_posix() for path in folders["live"].rglob("*")}
    assert {"kernel.py", "source.py", "contract.json", "weights.safetensors", "_runtime/module.py"} <= names
    assert len([name for name in names if name.endswith(".so")]) == 1
    assert not [name for name in names if name.endswith((".pkl", ".pt"))]


def test_a_live_module_comes_back_with_and_without_its_original(folders: dict[str, Path]) -> None:
    m = Norm(32).eval()
    for fast in (kernelwright.load(folders["live"]), kernelwright.load(folders["live"], m)):
        assert isinstance(fast, Norm) and fast.tied is fast.weight and fast.bias is None and not fast.training
        assert fast.activation is torch.nn.functional.relu
        with torch.no_grad():
            torch.testing.assert_close(fast(x()), m(x()))
            torch.testing.assert_close(fast(x()[:2]), m(x()[:2]))
        assert (fast.report().kernel_calls, fast.report().original_calls) == (1, 1)
    with torch.no_grad():
        m.weight.mul_(3)
        torch.testing.assert_close(kernelwright.load(folders["live"], m)(x()), m(x()))
    fast = kernelwright.load(folders["live"], strict=True)
    with torch.no_grad(), pytest.raises(RuntimeError, match="the original would run"):
        fast(x()[:1])


def test_an_original_with_other_facts_is_seen(folders: dict[str, Path]) -> None:
    m = Norm(32).eval()
    m.eps = 0.5
    fast = kernelwright.load(folders["live"], m)
    with torch.no_grad():
        torch.testing.assert_close(fast(x()), m(x()))
    assert "eps" in str(fast.report().reasons)
    with pytest.raises(UserError, match=r"the module is a ReLU; the kernel was made for .*Norm"):
        kernelwright.load(folders["live"], torch.nn.ReLU())


def test_what_no_folder_keeps_needs_the_original(folders: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="config is not kept in a folder; give the original"):
        kernelwright.load(folders["configured"])
    fast = kernelwright.load(folders["configured"], Configured().eval())
    with torch.no_grad():
        torch.testing.assert_close(fast(x()), Configured()(x()))
    assert fast.report().kernel_calls == 1


def in_a_fresh_process(code: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run code that cannot import Kernelwright."""
    blocked = (
        "import sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.split('.')[0] == 'kernelwright': raise ImportError(name)\n"
        "sys.meta_path.insert(0, Blocked())\nimport torch\n"
    )
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", blocked + code],
        cwd=folder,
        env={"PATH": "/nonexistent", "HOME": "/nonexistent", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


ALONE = """
import file as shipped
x, y = torch.load("expected.pt")
fast = shipped.load()
with torch.no_grad():
    torch.testing.assert_close(fast(x), y)
    assert fast(x[:2]).shape == (2, 32)
fast(x).sum().backward()
assert fast.scale.grad is not None
import copy, pickle
again = pickle.loads(pickle.dumps(copy.deepcopy(fast)))
with torch.no_grad():
    torch.testing.assert_close(again(x), y)
print(fast.report().kernel_calls, fast.report().original_calls, again.report().kernel_calls)
"""


def test_it_runs_without_kernelwright_a_compiler_or_a_home(folders: dict[str, Path]) -> None:
    done = in_a_fresh_process(ALONE, folders["home"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1 2 1"


def another_processor(folder: Path) -> None:
    """Make a folder's library one of a processor that has more than any."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["library"]["features"].append("avx9999")
    manifest["digest"] = digest_of_manifest(manifest)
    path.write_text(json.dumps(manifest))


LOADED = """
import live
try:
    fast = live.load()
    maps = [line.split()[-1] for line in open("/proc/self/maps") if ".so" in line]
    print("loaded", [name for name in maps if "/build/" in name or "/live/" in name][:1])
except Exception as error:
    print(type(error).__name__, str(error))
"""


def test_a_library_for_another_processor_is_built_anew(live: Path, tmp_path: Path) -> None:
    another_processor(live)
    done = in_a_fresh_process(
        LOADED, tmp_path, PATH=os.environ["PATH"], KERNELWRIGHT_CACHE=str(tmp_path / "own")
    )
    assert done.stdout.startswith("loaded") and str(tmp_path / "own") in done.stdout, (
        done.stdout,
        done.stderr,
    )
    assert str(live) not in done.stdout


def test_what_keeps_it_from_being_built_is_said_in_one_line(live: Path, tmp_path: Path) -> None:
    another_processor(live)
    no_compiler = in_a_fresh_process(LOADED, tmp_path, KERNELWRIGHT_CACHE=str(tmp_path / "own"))
    assert "FolderError" in no_compiler.stdout and no_compiler.stdout.count("\n") == 1
    assert "no C++ compiler" in no_compiler.stdout and "CXX" in no_compiler.stdout
    (tmp_path / "taken").write_text("a file, no folder")
    no_cache = in_a_fresh_process(
        LOADED, tmp_path, PATH=os.environ["PATH"], KERNELWRIGHT_CACHE=str(tmp_path / "taken")
    )
    assert "cannot write" in no_cache.stdout and "KERNELWRIGHT_CACHE" in no_cache.stdout
    assert no_cache.stdout.count("\n") == 1


@pytest.mark.parametrize("name", ["kernel.py", "contract.json", "weights.safetensors", "_runtime/guards.py"])
def test_damage_is_found(live: Path, name: str) -> None:
    path = live / name
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(UserError, match=r"was changed after it was written; save the module again"):
        kernelwright.load(live)
    path.unlink()
    with pytest.raises(UserError, match="is missing"):
        kernelwright.load(live)


def test_bad_folders_get_one_line(tmp_path: Path, live: Path, folders: dict[str, Path]) -> None:
    with pytest.raises(UserError, match=r"manifest.json cannot be read \(No such file"):
        kernelwright.load(tmp_path / "nowhere")
    (live / "manifest.json").write_text("{}")
    with pytest.raises(UserError, match="is no manifest of a delivered module"):
        kernelwright.load(live)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("important")
    task = Task(name="scaled", source=FILE)
    with pytest.raises(UserError, match="holds something else; name a new folder"):
        save(deliver(printed(task), task), tmp_path / "mine", cache_dir=folders["home"])
    assert (tmp_path / "mine" / "thesis.txt").exists()


def extension(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"manifest_version": 3, "name": "of a browser"}')


def manifest_that_is_no_text(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"\xff\xfe")


def note_among_ours(folder: Path) -> None:
    (folder / "library" / "notes.txt").write_text("important")


def link_among_ours(folder: Path) -> None:
    (folder / "data").symlink_to(folder.parent)


@pytest.mark.parametrize(
    "change",
    [extension, manifest_that_is_no_text, note_among_ours, link_among_ours],
    ids=lambda f: f.__name__,
)
def test_a_folder_that_holds_anything_else_is_not_replaced(
    live: Path, change: Callable[[Path], None]
) -> None:
    change(live)
    before = sorted(live.rglob("*"))
    with pytest.raises(UserError, match=r"holds something else \(.*\); name a new folder") as caught:
        write_folder(live, lambda place: None)
    assert "\n" not in str(caught.value) and sorted(live.rglob("*")) == before


def test_an_earlier_delivery_is_replaced_with_what_loading_left_in_it(live: Path) -> None:
    kernelwright.load(live)
    for name in ("_runtime/__pycache__/module.pyc", "library/built.so"):
        (live / name).parent.mkdir(exist_ok=True)
        (live / name).write_bytes(b"")
    write_folder(live, lambda place: (place / "new").touch())
    assert [path.name for path in live.iterdir()] == ["new"]


BY_HAND: dict[str, tuple[str, Any, str]] = {
    "no list of files": ("files", ["kernel.py"], "manifest.json: 'files' is not what save"),
    "a file is not listed": ("files", {}, "manifest.json: 'files' is not what save"),
    "a library for nothing": ("library", {}, "manifest.json: 'library' is not what save"),
    "a library without features": (
        "library",
        {"system": "Linux", "architecture": "x", "libc": "y"},
        "manifest.json: 'library' is not what save",
    ),
    "blocks": ("blocks", ["inner"], "manifest.json: 'blocks' is not what save"),
    "backward": ("backward", 3, "manifest.json: 'backward' is not what save"),
    "lost": ("lost", {"a": "b"}, "manifest.json: 'lost' is not what save"),
}


@pytest.mark.parametrize(("name", "value", "why"), BY_HAND.values(), ids=BY_HAND.keys())
def test_a_manifest_that_a_hand_edited_is_refused_in_one_line(
    live: Path, name: str, value: Any, why: str
) -> None:
    sealed(live, {name: value})
    with pytest.raises(UserError, match=rf"{why}.*save the module again") as caught:
        kernelwright.load(live)
    assert "\n" not in str(caught.value)


def sealed(folder: Path, said: dict[str, Any]) -> None:
    """Write a manifest that says something else, with a digest and hashes that fit."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in manifest["files"]}
    manifest = {**manifest, "files": found, **said}
    manifest["digest"] = digest_of_manifest(manifest)
    path.write_text(json.dumps(manifest))


def no_root(contract: Any) -> None:
    del contract["parts"][""]


def no_such_weight(contract: Any) -> None:
    contract["weights"]["tied"]["same_as"] = "nowhere"


def no_cases(contract: Any) -> None:
    del contract["cases"]


def empty_cases(contract: Any) -> None:
    contract["cases"] = []


def code_as_a_place(contract: Any) -> None:
    view = {"shape": [1], "stride": [1], "offset": "print()"}
    contract["cases"][0]["aliases"] = [{"of": "input", "place": 0, "view": view}]


def nobody_s_place(contract: Any) -> None:
    contract["cases"][0]["aliases"] = [{"of": "nobody", "place": 0, "view": None}]


CONTRACTS: dict[str, tuple[Callable[[Any], None], str]] = {
    "no cases": (empty_cases, "its kernel cannot be loaded"),
    "code as a place": (code_as_a_place, "contract.json is no contract"),
    "a place of nobody": (nobody_s_place, "contract.json is no contract"),
    "a part": (no_root, "cannot be put together from contract.json"),
    "a tied weight": (no_such_weight, "cannot be put together from contract.json"),
    "cases": (no_cases, "contract.json is no contract"),
}


@pytest.mark.parametrize(("change", "why"), CONTRACTS.values(), ids=CONTRACTS.keys())
def test_a_contract_that_a_hand_edited_is_refused_in_one_line(
    live: Path, change: Callable[[Any], None], why: str
) -> None:
    path = live / "contract.json"
    contract = json.loads(path.read_text())
    change(contract)
    path.write_text(json.dumps(contract))
    sealed(live, {})
    with pytest.raises(UserError, match=rf"{why}.*save the module again") as caught:
        kernelwright.load(live)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("program", ["", "raise ValueError('one\\ntwo')", "import nosuchmodule", "'"])
def test_a_program_that_a_hand_edited_is_refused_in_one_line(live: Path, program: str) -> None:
    (live / "kernel.py").write_text(program)
    sealed(live, {})
    with pytest.raises(UserError, match=r"its kernel cannot be loaded .*; save the module again") as caught:
        kernelwright.load(live)
    assert "\n" not in str(caught.value)


def test_what_is_no_module_is_refused(live: Path) -> None:
    with pytest.raises(UserError, match=r"int is no module; give the original: load\(folder, module\)"):
        kernelwright.load(live, 3)  # type: ignore[arg-type]


def test_features_decide_and_nothing_else() -> None:
    here = this_machine()
    assert misfit(here, here) is None and here["architecture"] == platform.machine()
    assert "lacks avx9999" in str(misfit({**here, "features": [*here["features"], "avx9999"]}, here))
    assert "compiled for riscv" in str(misfit({**here, "architecture": "riscv"}, here))
    assert misfit({**here, "features": []}, here) is None
    assert "it needs glibc-99.1" in str(misfit({**here, "libc": "glibc-99.1"}, {**here, "libc": "glibc-2.9"}))


def test_the_runtime_imports_torch_and_the_standard_library_alone() -> None:
    for text in runtime_texts().values():
        assert "kernelwright." not in "".join(line for line in text.splitlines() if "import" in line)


def test_strides_and_wanted_gradients_come_back(tmp_path: Path) -> None:
    m = Turned().eval()
    folder = save(delivered(m, (x(),), tmp_path), tmp_path / "turned", cache_dir=tmp_path)
    fast = kernelwright.load(folder)
    with torch.no_grad():
        torch.testing.assert_close(fast(x()), m(x()))
    assert kernelwright.report(fast).kernel_calls == 1
    assert fast.weight.stride() == (1, 32) and fast.table.stride() == (1, 4)
    assert fast.phase.requires_grad and fast.weight.requires_grad and not fast.still.requires_grad


def test_sizes_and_ordered_dicts_come_back_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    m = Sized().eval()
    made = delivered(m, (x(),), tmp_path)
    folder = save(made, tmp_path / "sized", cache_dir=tmp_path)
    copies = [
        kernelwright.load(folder),
        kernelwright.load(folder, m),
        pickle.loads(pickle.dumps(made.module)),
    ]
    for fast in copies:
        assert type(fast.shape) is torch.Size and type(fast.factors) is OrderedDict
        with torch.no_grad():
            torch.testing.assert_close(fast(x()), m(x()))
            torch.testing.assert_close(fast(x()[:2]), m(x()[:2]))
            assert (fast.report().kernel_calls, fast.report().original_calls) == (1, 1)
            fast.within[1] = 2.0
            torch.testing.assert_close(fast(x()), m(x()) * 2)
        assert "within" in str(fast.report().reasons)


def test_a_folder_that_has_them_as_tuples_and_dicts_is_loaded_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    m = Sized().eval()
    folder = save(delivered(m, (x(),), tmp_path), tmp_path / "sized", cache_dir=tmp_path)
    path = folder / "contract.json"
    path.write_text(
        path.read_text().replace('"Size": [', '"tuple": [').replace('"OrderedDict": [', '"dict": [')
    )
    sealed(folder, {})
    for fast in (kernelwright.load(folder), kernelwright.load(folder, m)):
        with torch.no_grad():
            torch.testing.assert_close(fast(x()), m(x()))


def test_weights_come_back_as_they_were(tmp_path: Path) -> None:
    tensors: dict[str, Any] = {
        "a": torch.randn(3, 4).t(),
        "b": torch.tensor(7),
        "c": torch.randn(2).bfloat16(),
        "d": torch.ones(0, 3),
        "e": torch.tensor([True, False]),
    }
    write_weights(tmp_path / "w", tensors)
    for name, found in read_weights(tmp_path / "w").items():
        assert found.dtype is tensors[name].dtype and torch.equal(found, tensors[name])
    data = (tmp_path / "w").read_bytes()
    for bad in (data[:-1], data[:20], b"", b"\xff" * 40):
        (tmp_path / "w").write_bytes(bad)
        with pytest.raises(ValueError, match="holds no weights"):
            read_weights(tmp_path / "w")
