"""Source keys of calls, what is remembered under them, and why there is none. That no change goes unnoticed is tested by
:mod:`fingerprint.adversary`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import importlib
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tilelang.cache.keys.source_key import FunctionTracker, trace
from tilelang.fingerprint import plain, watch

from . import fakes

REFUSED = {
    # name -> (program, what the reason says)
    "random": ("import random\n\ndef make(n):\n    return random.random()\n", "random"),
    "clock": ("import time\n\ndef make(n):\n    return time.time()\n", "time.time"),
    "cpu_count": ("import os\n\ndef make(n):\n    return os.cpu_count()\n", "os.cpu_count"),
    "file": ("def make(n):\n    return open('/etc/hostname').read()\n", "open"),
    "globals": ("def make(n):\n    return globals()['x']\n", "globals"),
    "eval": ("def make(n):\n    return eval('1')\n", "eval"),
    "module_passed_on": (
        "import re, sys\n\ndef make(n):\n    return getattr(sys, 'maxsize')\n",
        "module sys",
    ),
    "generator": ("numbers = iter([1, 2])\n\ndef make(n):\n    return next(numbers)\n", "list_iterator"),
    "lock": ("import threading\n\nlock = threading.Lock()\n\ndef make(n):\n    return lock\n", "lock"),
    "used_cache": (
        "from functools import lru_cache\n\n@lru_cache\ndef helper(n):\n    return n\n\nhelper(1)\n\n"
        "def make(n):\n    return helper(n)\n",
        "from before a change",
    ),
    "numpy_random": ("import numpy\n\ndef make(n):\n    return numpy.random.rand()\n", "rand"),
}


@contextlib.contextmanager
def module(folder: Path, text: str) -> Iterator[ModuleType]:
    """A module of this text; its file is ``program.py`` in ``folder``."""
    (folder / "program.py").write_text(text)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module("program")
    finally:
        sys.path.remove(str(folder))
        del sys.modules["program"]


@pytest.fixture(params=["compiled", "python"])
def both_watches(request, monkeypatch):
    """The tests run with the compiled helper, where it was built, and without."""
    if request.param == "python":
        from tilelang.cache.keys import source_key

        monkeypatch.setattr(watch, "plain_key", plain._python_plain_key)
        monkeypatch.setattr(source_key, "Watch", watch.PythonWatch)
        monkeypatch.setattr(source_key, "Recall", watch.PythonRecall)
    return request.param


@pytest.mark.parametrize("name", REFUSED)
def test_inputs_without_a_fingerprint_turn_the_shortcut_off_with_a_reason(tmp_path, name):
    text, expected = REFUSED[name]
    with module(tmp_path, text) as prog:
        tracker = FunctionTracker(prog.make)
        key = tracker.source_key((4,), {})
        assert key.digest is None
        assert expected in key.reason
        assert "make()" in key.reason
        tracker.remember((4,), {}, "kernel", tracker.source_key((4,), {}))
        assert tracker.recall((4,), {}) is None


def test_an_argument_without_fingerprint_turns_the_shortcut_off():
    def make(n):
        return n

    tracker = FunctionTracker(make)
    key = tracker.source_key((torch.zeros(2),), {})
    assert key.digest is None and "an argument" in key.reason and "Tensor" in key.reason


def test_torch_dtypes_and_nan_count_by_value(both_watches):
    def make(dtype):
        return dtype

    tracker = FunctionTracker(make)
    calls = [(torch.float16,), (torch.float32,), (float("nan"),), ("float16",), (None,)]
    keys = [tracker.source_key(args, {}).digest for args in calls]
    assert len(set(keys)) == len(calls)
    for position, args in enumerate(calls):
        tracker.remember(args, {}, position + 1, tracker.source_key(args, {}))
    assert [tracker.recall(args, {}) for args in calls] == [1, 2, 3, 4, 5]
    assert tracker.recall((float("nan"),), {}) == 3


def test_equal_content_in_another_object_still_hits(tmp_path):
    with module(tmp_path, "SIZES = [1, 2]\n\ndef make(n):\n    return SIZES[0]\n") as prog:
        tracker = FunctionTracker(prog.make)
        tracker.remember((1,), {}, "kernel", tracker.source_key((1,), {}))
        prog.SIZES = [1, 2]
        assert tracker.recall((1,), {}) == "kernel"
        prog.SIZES[1] = 5
        assert tracker.recall((1,), {}) is None


def test_a_file_edited_after_its_import_is_not_recorded(tmp_path):
    with module(tmp_path, "def make(n):\n    return n + 1\n") as prog:
        key = FunctionTracker(prog.make).source_key((1,), {})
        assert key.traced(None).digest == key.digest
        (tmp_path / "program.py").write_text("def make(n):\n    return n + 22\n")
        refused = FunctionTracker(prog.make).source_key((1,), {}).traced(None)
        assert refused.digest is None and "program.py" in refused.reason


def test_a_trace_that_changes_what_it_reads_is_not_recorded(tmp_path):
    with module(tmp_path, "SEEN = []\n\ndef make(n):\n    SEEN.append(n)\n    return len(SEEN)\n") as prog:
        key = FunctionTracker(prog.make).source_key((1,), {})
        assert key.digest is not None
        prog.make(1)
        assert "changes what it reads" in key.traced(None).reason


def test_a_function_that_changes_what_it_reads_at_every_trace_is_not_analysed_again(tmp_path, monkeypatch):
    with module(tmp_path, "SEEN = []\n\ndef make(n):\n    SEEN.append(n)\n    return len(SEEN)\n") as prog:
        tracker = FunctionTracker(prog.make)
        for _ in range(3):
            key = tracker.source_key((1,), {})
            assert key.digest is not None
            trace(key, functools.partial(prog.make, 1))
        monkeypatch.setattr(FunctionTracker, "_describe", None)
        assert "changes what it reads" in tracker.source_key((1,), {}).reason


def test_a_function_that_changes_what_it_reads_once_is_analysed_again(tmp_path):
    with module(tmp_path, "SEEN = {}\n\ndef make(n):\n    return SEEN.setdefault(n, n)\n") as prog:
        tracker = FunctionTracker(prog.make)
        for expected in (False, True, True, True, True):
            _, key = trace(tracker.source_key((1,), {}), functools.partial(prog.make, 1))
            assert (key.digest is not None) is expected


def test_options_of_the_decorator_are_part_of_the_key():
    def make(n):
        return n

    options = [
        ("cuda", (2,)),
        ("cuda", (-1,)),
        ("c", (2,)),
        ("cuda", (2,), {"tl.fast": True}),
        ("cuda", (2,), {"tl.fast": 1}),
    ]
    keys = {FunctionTracker(make, lambda extra=extra: extra).source_key((1,), {}).digest for extra in options}
    assert len(keys) == len(options)


def test_a_tool_that_is_replaced_after_the_first_call_turns_the_shortcut_off():
    def make(n):
        return n

    tools = ["cc 1"]
    tracker = FunctionTracker(make, lambda: tuple(tools))
    first = tracker.source_key((1,), {})
    assert first.traced(None) is first
    tools[0] = "cc 2"
    second = tracker.source_key((2,), {}).traced(None)
    assert (second.digest, second.reason) == (None, "a tool that compiles the kernel was replaced while this process ran")


def test_garbage_collector_callbacks_are_not_attributed_to_the_program():
    seen = []

    def note(phase, info):
        seen.append(time.perf_counter())

    def make(n):
        return [[] for _ in range(n)]

    tracker = FunctionTracker(make)
    thresholds = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        _, source = trace(tracker.source_key((100,), {}), functools.partial(make, 100))
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(note)
    assert source.reason == "" and gc.isenabled()


def test_dtypes_of_the_language_are_plain(both_watches):
    import tilelang.language as T

    def make(dtype):
        return dtype

    tracker = FunctionTracker(make)
    calls = [(T.float16,), ("float16",), (T.float32,), (torch.float16,)]
    for position, args in enumerate(calls):
        tracker.remember(args, {}, position + 1, tracker.source_key(args, {}))
    assert [tracker.recall(args, {}) for args in calls] == [1, 2, 3, 4]
    assert tracker.recall((T.dtype("float16"),), {}) == 1
    for key in (plain.plain_key, plain._python_plain_key):
        assert len({key(args) for args in calls}) == 4 and key(calls[0]) == key((T.dtype("float16"),))


NAMES = """
import sys
import time
import tilelang.language as T
from tilelang.cache.keys.source_key import FunctionTracker, trace
import users

names = [name for name in T.__all__ if name not in ("Var", "PrimExpr", "CUDASourceCodeKernel")]
before = {name: FunctionTracker(getattr(users, name)).source_key((), {}) for name in names}
loaded = [getattr(T, name) for name in names]
after = {name: FunctionTracker(getattr(users, name)).source_key((), {}) for name in names}
print([(name, before[name].reason) for name in names if before[name].here is None])
print([name for name in names if before[name].here != after[name].here])
"""


def test_a_lazily_loaded_name_of_the_language_keeps_its_fingerprint(tmp_path):
    from tilelang import language

    functions = (f"def {name}():\n    return T.{name}\n" for name in language.__all__)
    (tmp_path / "users.py").write_text("import tilelang.language as T\n" + "".join(functions))
    shown = fakes.run_python(NAMES, PYTHONPATH=f"{tmp_path}:{fakes.python_path()}").stdout.splitlines()
    assert shown == ["[]", "[]"]


class Config:
    """A configuration that equals another one in all its content."""

    def __init__(self):
        self.tile = 4


DEFAULT = Config()


def test_an_argument_that_the_function_reads_is_not_its_equal():
    def make(config):
        return config is DEFAULT

    tracker = FunctionTracker(make)
    for config, number in ((DEFAULT, 1), (Config(), 2)):
        assert tracker.recall((config,), {}) is None
        tracker.remember((config,), {}, number, tracker.source_key((config,), {}))
    assert tracker.recall((DEFAULT,), {}) == 1 and tracker.recall((Config(),), {}) == 2


TABLE: list[int] = []


def test_arguments_that_are_one_list_are_not_two_equal_ones():
    def make(first, second):
        first.append(1)
        found = len(second), len(TABLE)
        first.clear()
        return found

    one = []
    tracker = FunctionTracker(make)
    calls = [([], []), (one, one), (TABLE, []), ([], TABLE), ({}, {}), ([1, [2]], [2])]
    for number, args in enumerate(calls):
        assert tracker.recall(args, {}) is None
        tracker.remember(args, {}, number + 1, tracker.source_key(args, {}))
    assert [tracker.recall(args, {}) for args in calls] == [1, 2, 3, 4, 5, 6]
    other = []
    again = [([], []), (other, other), (TABLE, []), ([], TABLE), ({}, {}), ([1, [2]], [2])]
    assert [tracker.recall(args, {}) for args in again] == [1, 2, 3, 4, 5, 6]


def test_a_tracer_turns_the_shortcut_off_for_as_long_as_it_is_set():
    def make(n):
        return n

    tracker = FunctionTracker(make)
    tracker.remember((7,), {}, "kernel", tracker.source_key((7,), {}))
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        found, reason = tracker.recall((7,), {}), tracker.source_key((7,), {}).reason
    finally:
        sys.settrace(before)
    assert found is None and "sys.settrace" in reason
    assert tracker.source_key((7,), {}).reason == ""


def test_the_text_of_a_module_in_a_zip_file_counts(tmp_path, monkeypatch):
    text = "N = 4\nM = 4\n\ndef make(n):\n    x: NAME\n    return n\n"
    keys = []
    for name in ("N", "M", "N"):
        with zipfile.ZipFile(tmp_path / f"{len(keys)}.zip", "w") as file:
            file.writestr("zipped.py", text.replace("NAME", name))
        monkeypatch.setattr(sys, "path", [str(tmp_path / f"{len(keys)}.zip"), *sys.path])
        tracker = FunctionTracker(importlib.import_module("zipped").make)
        source = tracker.source_key((1,), {})
        keys.append(source.digest)
        assert trace(source, functools.partial(tracker.function, 1))[1].reason == ""
        del sys.modules["zipped"]
    assert keys[0] == keys[2] != keys[1]


ANNOTATIONS = {
    # what an annotation of a local variable does -> a part of the reason, or "" where the shortcut is on
    "T((other,))": "",
    "T((FACTORS.own,))": "",
    'T((int(os.environ["PATH_FACTOR"]),))': "",
    "T((int(other.__doc__),))": "'__doc__'",
    "T((getattr(other, '__glo' + 'bals__')['FACTORS'],))": "__globals__",
    "T((PATH.stat().st_size,))": "'stat'",
    "T((open('x'),))": "io.open",
    "T((datetime.datetime.now(),))": "datetime",
    "T((1 if other is n else 2,))": "`is`",
    "datetime.datetime": "",
}


@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_annotations_of_local_variables_are_code(tmp_path, annotation):
    text = (
        "import datetime, os, pathlib, types\n\nPATH = pathlib.Path('x')\nFACTORS = types.SimpleNamespace(own=2)\n\n"
        f"def T(shape):\n    return shape\n\ndef other():\n    '4'\n\ndef make(n):\n    x: {annotation}\n    return n\n"
    )
    with module(tmp_path, text) as program:
        source = FunctionTracker(program.make).source_key((1,), {})
    assert ANNOTATIONS[annotation] in source.reason and bool(source.reason) == bool(ANNOTATIONS[annotation])


def test_an_exception_in_the_check_after_a_trace_fails_no_call(monkeypatch):
    def raising(codes):
        raise TypeError("a builtin that the program replaced")

    tracker = FunctionTracker(fakes.run_python)
    source = tracker.source_key((1,), {})
    source = dataclasses.replace(source, problem=functools.partial(tracker._problem, (1,), {}, "key", ()), here="key")
    monkeypatch.setattr("tilelang.fingerprint.source_text.changed_file", raising)
    made, source = trace(source, lambda: 2)
    assert made == 2 and source.digest is None and "raises TypeError: a builtin" in source.reason
