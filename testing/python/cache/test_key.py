"""Kernel keys: every input counts, with its type, and nothing else does."""

from __future__ import annotations

import json
import math
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.cache.keys import fingerprint as fingerprint_module
from tilelang.cache.keys.fingerprint import Fingerprint
from tilelang.cache.keys.installed import package_version
from tilelang.cache.keys.versions import files_of, version_of
from tilelang.errors import CacheError
from tilelang.fingerprint.canonical import NotCanonical, canonical
from tilelang.fingerprint.plain import NotPlain, _python_plain_key, plain_key
from tilelang.jit.tools import tools_of

from . import fakes

CHANGES = [
    {"name": "sub"},
    {"program": "C = A - B"},
    {"target": '{"kind": "cuda"}'},
    {"backend": "tvm_ffi"},
    {"out_idx": (1,)},
    {"out_idx": ()},
    {"pass_configs": {"tl.fast": True}},
    {"pass_configs": {"tl.fast": 1}},
    {"pass_configs": {"tl.fast": 1.0}},
    {"pass_configs": {"tl.fast": "1"}},
    {"pass_configs": {"tl.fast": math.nan}},
    {"pass_configs": {"tl.fast": None}},
    {"compile_flags": ("-O3",)},
    {"compile_flags": ("-O", "3")},
    {"toolchain": {"nvrtc": "13.5"}},
    {"toolchain": {"nvrtc": "13.6"}},
    {"options": {"space": 1}},
    {"fingerprint": Fingerprint((("python", "1" * 64),), True)},
    {"fingerprint": Fingerprint((("headers", "0" * 64),), True)},
]


def test_every_input_changes_the_key():
    digests = [fakes.key(**change).digest for change in ({}, *CHANGES)]
    assert len(set(digests)) == len(digests)
    assert fakes.key().digest == digests[0]


def test_order_of_dictionaries_does_not_count():
    one = fakes.key(pass_configs={"a": 1, "b": {"x": 1, "y": 2}}, toolchain={"p": "1", "q": "2"})
    two = fakes.key(pass_configs={"b": {"y": 2, "x": 1}, "a": 1}, toolchain={"q": "2", "p": "1"})
    assert one.digest == two.digest


def test_a_variable_that_changes_code_is_an_input(monkeypatch):
    before = fakes.key().digest
    monkeypatch.setenv("TILELANG_CUDA_ARCH", "sm_80")
    assert fakes.key().digest != before
    assert "environment:TILELANG_CUDA_ARCH" in fakes.key().inputs


def test_a_value_without_canonical_form_is_an_error():
    with pytest.raises(CacheError, match="pass_config:tl.x cannot be part"):
        _ = fakes.key(pass_configs={"tl.x": object()}).digest


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | st.just(-0.0),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def typed(value):
    """A form that is equal exactly where type, bits and order are."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(typed, value))
    if isinstance(value, dict):
        return "dict", tuple((typed(key), typed(item)) for key, item in value.items())
    return type(value).__name__, value.hex() if isinstance(value, float) else repr(value)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(plain_values, plain_values)
def test_texts_are_equal_where_values_and_types_are(one, two):
    assert (canonical(one) == canonical(two)) == (typed(one) == typed(two)) or isinstance(one, dict)
    for key in (plain_key, _python_plain_key):
        assert (key(one) == key(two)) == (typed(one) == typed(two))


@pytest.mark.parametrize("key", [plain_key, _python_plain_key])
def test_what_is_not_a_number_is_not_plain(key):
    """A list finds it by its identity, which only the full fingerprint tells."""
    with pytest.raises(NotPlain):
        key((math.nan,))
    assert canonical([math.nan]) == canonical([float("nan")])


def test_sets_have_an_order_and_objects_have_none():
    assert canonical({"b", "a", "c"}) == canonical({"c", "b", "a"})
    with pytest.raises(NotCanonical, match="object"):
        canonical([object()])


# -- the compiler's fingerprint -------------------------------------------------------------------------------------

SHOW = """
import json, sys
from pathlib import Path
from tilelang.cache.keys.fingerprint import compiler_fingerprint
from tilelang.cache.keys.key import KernelKey
found = compiler_fingerprint(None)
print(json.dumps([dict(found.parts), found.loaded_is_on_disk, KernelKey("n", "p", "t", "b").digest]))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package with device headers beside it."""
    return copy_tree(tmp_path / "tree")


def copy_tree(destination: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyc")
    shutil.copytree(fakes.REPOSITORY / "tilelang", destination / "tilelang", ignore=ignored)
    headers = destination / "src" / "tl_templates" / "cuda"
    headers.mkdir(parents=True)
    (headers / "mma.h").write_text("// mma\n")
    (destination / "apache_tvm-0.27.0.dist-info").mkdir()
    record = "tvm/__init__.py,sha256=abc,10\napache_tvm-0.27.0.dist-info/INSTALLER,sha256=x,4\n../../bin/t,sha256=y,1\n"
    (destination / "apache_tvm-0.27.0.dist-info" / "RECORD").write_text(record)
    return destination


def show(tree: Path, code: str = SHOW) -> list:
    return json.loads(fakes.run_python(code, PYTHONPATH=str(tree)).stdout)


def test_the_fingerprint_survives_a_move_and_another_installer(tree, tmp_path):
    parts, loaded, key = show(tree)
    assert loaded and set(parts) >= {"python", "headers", "apache_tvm-0.27.0"}
    moved = copy_tree(tmp_path / "elsewhere" / "deeper")
    record = moved / "apache_tvm-0.27.0.dist-info" / "RECORD"
    record.write_text(record.read_text() + "tvm/__pycache__/x.pyc,,\napache_tvm-0.27.0.dist-info/REQUESTED,sha256=z,0\n")
    assert show(moved) == [parts, loaded, key]


def edit_header(tree: Path) -> None:
    (tree / "src" / "tl_templates" / "cuda" / "mma.h").write_text("// mmb\n")


def add_header(tree: Path) -> None:
    (tree / "src" / "tl_templates" / "cuda" / "new.h").write_text("")


def edit_source(tree: Path) -> None:
    source = tree / "tilelang" / "artifact.py"
    source.write_text(source.read_text() + "# changed\n")


def update_tvm(tree: Path) -> None:
    (tree / "apache_tvm-0.27.0.dist-info").rename(tree / "apache_tvm-0.27.1.dist-info")


def rebuild_tvm(tree: Path) -> None:
    record = tree / "apache_tvm-0.27.0.dist-info" / "RECORD"
    record.write_text(record.read_text().replace("abc", "abd"))


@pytest.mark.parametrize("edit", [edit_header, add_header, edit_source, update_tvm, rebuild_tvm], ids=lambda f: f.__name__)
def test_a_changed_compiler_changes_every_key(tree, edit):
    before = show(tree)
    edit(tree)
    after = show(tree)
    assert after[0] != before[0] and after[2] != before[2]


WITHIN = """
import json, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from cache import fakes
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys.key import KernelKey
from tilelang.cache.keys.source_key import FunctionTracker

def make(n):
    return n

def look_up():
    key = KernelKey("n", "p", "t", "b")
    source = FunctionTracker(make).source_key((1,), {{}})
    return KernelCache().lookup_or_compile(key, fakes.artifact, source).origin, bool(source.reason)

found = [look_up(), look_up()]
header = Path({tree!r}) / {changed!r}
header.write_text(header.read_text() + "// other" if header.suffix == ".h" else header.read_text() + "# other")
print(json.dumps([*found, look_up(), look_up()]))
"""


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # A header is read at every compilation: new keys, and they hit again.
        ("src/tl_templates/cuda/mma.h", [["compiled", False], ["disk", False], ["compiled", False], ["disk", False]]),
        # The loaded compiler is no longer the one on disk: nothing that it makes is kept.
        ("tilelang/artifact.py", [["compiled", False], ["disk", False], ["compiled", True], ["compiled", True]]),
    ],
)
def test_a_compiler_changed_under_a_running_process(tree, changed, expected):
    code = WITHIN.format(tests=str(fakes.REPOSITORY / "testing" / "python"), tree=str(tree), changed=changed)
    time.sleep(0.05)  # a file made within the clock's tick of the process's start would count as changed
    assert show(tree, code) == expected


def test_contents_are_read_once_for_each_state_of_the_files(tmp_path, monkeypatch):
    memo = tmp_path / "fingerprints.json"
    first = fingerprint_module.compiler_fingerprint(memo)
    monkeypatch.setattr(fingerprint_module, "_known", {})
    if memo.exists():
        monkeypatch.setattr(fingerprint_module, "_digest", lambda files: pytest.fail("contents were read again"))
    assert fingerprint_module.compiler_fingerprint(memo) == first


def test_version_of_an_executable_follows_the_file(tmp_path, monkeypatch):
    tool = tmp_path / "toolx"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert version_of(files_of("toolx")) == ""
    tool.write_text("#!/bin/sh\necho $0 1.0\n")
    tool.chmod(0o755)
    assert version_of(files_of("toolx")) == "toolx 1.0"
    tool.write_text("#!/bin/sh\necho $0 1.0.1\n")
    assert version_of(files_of("toolx")) == "toolx 1.0.1"


def test_a_c_compiler_that_is_replaced_in_a_running_process_is_another_one(tmp_path, monkeypatch):
    compiler = tmp_path / "wrapped-cc"
    compiler.write_text('#!/bin/sh\nexec cc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("TILELANG_CC", str(compiler))
    before = tools_of("c", "tvm_ffi").versions()
    assert tools_of("c", "tvm_ffi").versions() == before
    compiler.write_text('#!/bin/sh\nexec cc -O1 "$@"\n')
    after = tools_of("c", "tvm_ffi").versions()
    assert (after["cc"], after["cc file"] != before["cc file"]) == (before["cc"], True)


@pytest.mark.parametrize("name", ["as", "ld"])
def test_what_the_compiler_finds_on_the_path_counts(tmp_path, monkeypatch, name):
    before = tools_of("c", "tvm_ffi").versions()
    (tmp_path / name).write_text(f'#!/bin/sh\nexec /usr/bin/{name} -I"$HOME" "$@"\n')
    (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert {tool for tool, state in tools_of("c", "tvm_ffi").versions().items() if state != before[tool]} == {f"{name} file"}


def test_version_of_an_executable_is_asked_once_on_a_machine(tmp_path):
    tool, log = tmp_path / "tooly", tmp_path / "toolog"
    tool.write_text('#!/bin/sh\necho asked >> "${0%y}og"\necho 2.0\n')  # a file that it names would count
    tool.chmod(0o755)
    code = "import sys; from tilelang.cache.keys.versions import files_of, version_of; print(version_of(files_of(sys.argv[1])))"
    assert [fakes.run_python(code, str(tool)).stdout.strip() for _ in range(2)] == ["2.0", "2.0"]
    assert log.read_text() == "asked\n"


def test_version_of_a_package():
    from importlib import metadata

    for name in ("SQLAlchemy", "sqlalchemy", "apache-tvm", "apache_tvm"):
        assert package_version(name) == metadata.version(name)
    assert package_version("no-such-package") == ""
