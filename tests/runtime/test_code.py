"""The same code has the same description in every process, and other code has another one."""

import functools
import importlib
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pfels.experiment.loop import simulate
from pfels.runtime.code import Code, is_ours
from pfels.runtime.source_files import distribution_of, import_name, imported


def described(thing: object) -> tuple[dict[str, str], dict[str, str], list[str]]:
    code = Code()
    code.add(thing, "it")
    return code.files, code.values, code.unknown


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Write modules into a folder that code is imported from, and import one of them anew."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def write(name: str, **files: str) -> Any:
        for path, source in files.items():
            stem, _, folder = path.partition("_in_")
            file = tmp_path / folder / f"{stem}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(textwrap.dedent(source))
        for each in set(sys.modules) - before:
            if str(getattr(sys.modules[each], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[each]
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield write
    for each in set(sys.modules) - before:
        if str(getattr(sys.modules[each], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[each]


def typed(source: str, **names: Any) -> dict[str, Any]:
    """The names that code defines which was typed into a shell: it has no file."""
    shell = {"__name__": "shell", **names}
    exec(compile(textwrap.dedent(source), "<stdin>", "exec"), shell)
    return shell


def test_every_file_that_is_imported_counts_and_no_other(lab: Callable[..., Any]):
    files = {
        "scheme": "import numpy\nfrom near import gain\ndef play(): return gain()",
        "near": "def gain():\n    import far\n    return far.low()",
        "far": "def low(): return 1",
        "apart": "x = 1",
    }
    first = described(lab("scheme", **files).play)
    assert list(first[0]) == ["scheme.py", "near.py", "far.py"]
    assert described(lab("scheme", apart="x = 2").play) == first
    other = described(lab("scheme", far="def low(): return 2").play)
    assert {name for name in first[0] if first[0][name] != other[0][name]} == {"far.py"}


def test_of_a_package_every_file_counts(lab: Callable[..., Any]):
    files = {"__init___in_pack": "", "scheme_in_pack": "def play(): return 1", "late_in_pack": "x = 1"}
    first = described(lab("pack.scheme", **files).play)
    assert set(first[0]) == {"pack/__init__.py", "pack/scheme.py", "pack/late.py"}
    assert described(lab("pack.scheme", late_in_pack="x = 2").play) != first


def test_compiled_files_of_a_package_count_as_its_sources_do(lab: Callable[..., Any], tmp_path: Path):
    files, found = {"__init___in_pack": "", "scheme_in_pack": "def play(): return 1"}, []
    for content in (b"1", b"2"):
        (tmp_path / "pack").mkdir(exist_ok=True)
        (tmp_path / "pack" / "fast.so").write_bytes(content)
        found.append(described(lab("pack.scheme", **files).play)[0])
    assert set(found[0]) == {"pack/__init__.py", "pack/fast.so", "pack/scheme.py"}
    assert {name for name in found[0] if found[0][name] != found[1][name]} == {"pack/fast.so"}


def test_a_file_with_the_name_of_one_of_pythons_own_modules_counts(lab: Callable[..., Any]):
    assert "turtle" in sys.stdlib_module_names
    files = {"scheme": "import turtle\ndef play(): return turtle.gain()", "turtle": "def gain(): return 1"}
    first = described(lab("scheme", **files).play)
    assert set(first[0]) == {"scheme.py", "turtle.py"}
    assert described(lab("scheme", turtle="def gain(): return 2").play) != first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def play(): return 1", "def play(): return 2"),
        ("def play(x=1): return x", "def play(x=2): return x"),
        ("def play(*, x=1): return x", "def play(*, x=2): return x"),
        ("G = 1\ndef play(): return G", "G = 2\ndef play(): return G"),
        ("G = [1]\ndef play(): return G", "G = [2]\ndef play(): return G"),
        ("def g(): return 1\ndef play(): return g()", "def g(): return 2\ndef play(): return g()"),
        ("play = lambda: 1", "play = lambda: 2"),
        ("play = (lambda g: lambda: g)(1)", "play = (lambda g: lambda: g)(2)"),
        ("def play(): return (lambda: {1, 2})()", "def play(): return (lambda: {1, 3})()"),
        ("class C:\n    x = 1\n    def __call__(self): return self.x\nplay = C()",
         "class C:\n    x = 2\n    def __call__(self): return self.x\nplay = C()"),
        ("class C:\n    def __call__(self): return 1\nplay = C()",
         "class C:\n    def __call__(self): return 2\nplay = C()"),
        ("class B:\n    def a(self): return 1\nclass C(B):\n    pass\nplay = C",
         "class B:\n    def a(self): return 2\nclass C(B):\n    pass\nplay = C"),
        ("class C:\n    @property\n    def a(self): return 1\nplay = C",
         "class C:\n    @property\n    def a(self): return 2\nplay = C"),
        ("class C:\n    def __init__(self, x): self.x = x\n    def play(self): return self.x\nplay = C(1).play",
         "class C:\n    def __init__(self, x): self.x = x\n    def play(self): return self.x\nplay = C(2).play"),
        ("from functools import partial\ndef f(x): return x\nplay = partial(f, 1)",
         "from functools import partial\ndef f(x): return x\nplay = partial(f, 2)"),
        ("from functools import cache\n@cache\ndef g(): return 1\ndef play(): return g()",
         "from functools import cache\n@cache\ndef g(): return 2\ndef play(): return g()"),
        ("import numpy as n\nG = n.zeros(3)\ndef play(): return G",
         "import numpy as n\nG = n.ones(3)\ndef play(): return G"),
        ("def play(): return 1\nplay.x = 1", "def play(): return 1\nplay.x = 2"),
    ],
)  # fmt: skip
def test_code_without_a_file_is_told_by_what_it_does_and_what_it_was_given(one: str, other: str):
    first, again, second = (described(typed(source)["play"]) for source in (one, one, other))
    assert first == again
    assert first != second
    assert first[2] == []


def test_where_it_stands_does_not_matter():
    assert described(typed("def play(): return 1")["play"]) == described(typed("\n\n\ndef play(): return 1")["play"])


def test_what_a_file_does_not_say_counts_as_well(lab: Callable[..., Any]):
    lab("scheme", scheme="""
        import params
        G = 1
        def play(): return G + params.P
        def make(gain):
            def inner(): return gain
            return inner
    """, params="P = 1")  # fmt: skip
    scheme, params = sys.modules["scheme"], sys.modules["params"]
    first = described(scheme.play)
    assert described(scheme.make(1)) != described(scheme.make(2))
    assert described(functools.partial(scheme.make, 1)) != described(functools.partial(scheme.make, 2))
    scheme.G = 2
    second = described(scheme.play)
    params.P = 2
    third = described(scheme.play)
    assert first != second != third != first
    assert first[0] == second[0] == third[0]


def test_a_module_that_was_edited_after_it_was_imported_is_not_taken_for_the_one_in_the_file(
    lab: Callable[..., Any], tmp_path: Path
):
    """A notebook imports a scheme, the scheme is edited, and the notebook runs what it imported."""
    old = lab("scheme", scheme="def play(): return 1").play
    (tmp_path / "scheme.py").write_text("def play(): return 2")
    ran = described(old)
    new = described(lab("scheme").play)
    assert ran[0] == new[0], "the file"
    assert ran != new


def test_what_code_counts_for_itself_is_not_what_it_was_given(lab: Callable[..., Any]):
    play = lab("scheme", scheme="""
        N = 0
        def play():
            global N
            N += 1
            return N
    """).play  # fmt: skip
    inner = typed("""
        def make():
            n = 0
            def play():
                nonlocal n
                n += 1
                return n
            return play
        play = make()
    """)["play"]  # fmt: skip
    counter = typed("""
        class C:
            def __init__(self): self.n = 0
            def __call__(self):
                self.n += 1
                return self.n
        play = C()
    """)["play"]  # fmt: skip
    for each in (play, inner, counter):
        first = described(each)
        assert each() == 1
        assert described(each) == first


def test_what_cannot_be_hashed_is_named():
    shell = typed("def make(lock):\n    def play(): return lock\n    return play")
    import threading

    _, _, unknown = described(shell["make"](threading.Lock()))
    assert unknown == ["lock of shell:make.<locals>.play (a lock)"]
    assert described(shell["make"](torch.ones(2)))[2] == described(shell["make"](np.ones(2)))[2] == []


def test_a_script_has_the_same_description_in_every_process(tmp_path: Path):
    (tmp_path / "test.py").write_text(
        textwrap.dedent("""
        import sys
        from multiprocessing import get_context
        import near
        S = {"b", "a", "c"}
        class Play:
            def __init__(self, gain): self.gain = gain
            def __call__(self): return near.gain() * self.gain + len(S)
        PLAY = Play({"x", "y", 3.5})
        def tell(queue):
            from pfels.runtime.code import Code
            code = Code()
            code.add(PLAY, "it")
            queue.put((code.files, code.values, code.unknown))
        if __name__ == "__main__":
            context = get_context("forkserver")
            queue = context.Queue()
            worker = context.Process(target=tell, args=(queue,))
            worker.start()
            there = queue.get()
            worker.join()
            tell(queue)
            here = queue.get()
            assert here == there, (here, there)
            print(here)
    """)
    )  # a file with the name of one of Python's modules
    (tmp_path / "near.py").write_text("def gain(): return 1")
    found = [
        subprocess.run(
            [sys.executable, str(tmp_path / "test.py")], capture_output=True, text=True, check=True, cwd=cwd,
            env={"PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed, cwd in enumerate((tmp_path, "/"))
    ]  # fmt: skip
    assert found[0] == found[1]
    assert "'test.py'" in found[0]
    assert "'near.py'" in found[0]


def test_a_name_says_where_to_import_it_from():
    assert import_name(described) == f"{__name__}:described"
    assert import_name(functools.partial(described, 1)) == f"{__name__}:described"
    assert import_name(types.SimpleNamespace()) == "types:SimpleNamespace"
    assert imported(b"from . import x\nimport a.b as c, d\n  from e.f import g\nimport_module('h')") == list("adeh")
    assert distribution_of("numpy.linalg") == ("numpy", np.__version__)


def test_what_is_part_of_this_package_is_not_foreign():
    assert is_ours(simulate)
    assert is_ours(Code().add)
    assert not is_ours(functools.partial(simulate))
    assert not is_ours(lambda: simulate)
    assert not is_ours(type("Mine", (Code,), {})().add)


def test_which_of_several_things_of_a_file_it_is_counts_as_well(lab: Callable[..., Any]):
    module = lab("scheme", scheme="""
        one, other = lambda: 1, lambda: 2
        def low(): return 1
        def high(): return 2
        class A: pass
        class B: pass
        def choose(first):
            if first:
                class C(A): pass
            else:
                class C(B): pass
            return C
        gain = low
        def play(): return gain()
    """)  # fmt: skip
    assert described(module.one) != described(module.other)
    assert described(module.choose(True)) != described(module.choose(False))
    first = described(module.play)
    module.gain = module.high
    assert described(module.play) != first
