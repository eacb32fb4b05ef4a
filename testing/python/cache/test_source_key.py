"""No stale result, and no needless miss: every case of :mod:`adversary`, between processes and within one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from tilelang.cache.source_key import FunctionTracker
from tilelang.fingerprint import plain, watch

from . import adversary, fakes

EDITABLE = [case for case in adversary.CASES if case.edit or case.args_after or case.environment]
MUTABLE = [case for case in adversary.CASES if case.mutate or case.args_after]


def keys_in_a_new_process(folder, state: str) -> dict[str, list]:
    result = subprocess.run(
        [sys.executable, "-m", "cache.adversary", str(folder), state],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **os.environ,
            "PYTHONPATH": fakes.python_path(),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TILELANG_CACHE_DIR": str(folder / "cache"),
        },
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def between_processes(tmp_path_factory):
    """Keys of all cases: before the change, again in another process and another directory, and after the change."""
    first, moved, changed = (tmp_path_factory.mktemp(name) for name in ("first", "moved", "changed"))
    for case in adversary.CASES:
        texts = {"prog": case.prog, "lib": case.lib}
        for folder in (first, moved):
            adversary.write(folder, case.name, **texts)
        if case.edit:
            module, old, new = case.edit
            assert old in texts[module]
            texts[module] = texts[module].replace(old, new)
        adversary.write(changed, case.name, **texts)
    runs = ((first, "before"), (moved, "before"), (changed, "after"))
    return [keys_in_a_new_process(folder, state) for folder, state in runs]


@pytest.mark.parametrize("case", adversary.CASES, ids=lambda case: case.name)
def test_unchanged_inputs_hit_in_another_process_and_directory(between_processes, case):
    first, moved, _ = between_processes
    assert first[case.name][0] is not None, first[case.name][1]
    assert first[case.name] == moved[case.name]


@pytest.mark.parametrize("case", EDITABLE, ids=lambda case: case.name)
def test_a_change_between_processes_misses(between_processes, case):
    first, _, changed = between_processes
    assert changed[case.name][0] != first[case.name][0]


@pytest.fixture(params=["compiled", "python"])
def both_watches(request, monkeypatch):
    """The tests run with the compiled helper, where it was built, and without."""
    if request.param == "python":
        from tilelang.cache import source_key

        monkeypatch.setattr(watch, "plain_key", plain._python_plain_key)
        monkeypatch.setattr(source_key, "Watch", watch.PythonWatch)
        monkeypatch.setattr(source_key, "Recall", watch.PythonRecall)
    return request.param


@pytest.mark.parametrize("case", MUTABLE, ids=lambda case: case.name)
def test_a_change_within_a_process_misses(tmp_path, case, both_watches):
    adversary.write(tmp_path, case.name, case.prog, case.lib)
    with adversary.imported(tmp_path):
        prog, lib = adversary.modules(case.name)
        tracker = FunctionTracker(prog.make)
        args = adversary.arguments(case.args, prog, lib)
        before = tracker.source_key(args, {})
        assert before.digest is not None, before.reason
        assert tracker.recall(args, {}) is None
        tracker.remember(args, {}, "kernel", tracker.source_key(args, {}))
        assert tracker.recall(args, {}) == "kernel"
        assert tracker.recall(adversary.arguments(case.args, prog, lib), {}) == "kernel"
        exec(case.mutate, {"prog": prog, "lib": lib, "os": os})
        args = adversary.arguments(case.args_after or case.args, prog, lib)
        assert tracker.recall(args, {}) is None
        assert tracker.source_key(args, {}).digest != before.digest


@pytest.mark.parametrize("name", adversary.REFUSED)
def test_what_cannot_be_told_turns_the_shortcut_off_and_says_why(tmp_path, name):
    prog_text, expected = adversary.REFUSED[name]
    adversary.write(tmp_path, name, prog_text)
    with adversary.imported(tmp_path):
        prog, _ = adversary.modules(name)
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
    case = next(case for case in adversary.CASES if case.name == "list_mutated_in_place")
    adversary.write(tmp_path, case.name, case.prog)
    with adversary.imported(tmp_path):
        prog, _ = adversary.modules(case.name)
        tracker = FunctionTracker(prog.make)
        tracker.remember((1,), {}, "kernel", tracker.source_key((1,), {}))
        prog.SIZES = [1, 2]
        assert tracker.recall((1,), {}) == "kernel"
        prog.SIZES[1] = 5
        assert tracker.recall((1,), {}) is None


def test_a_file_edited_after_its_import_is_not_recorded(tmp_path):
    adversary.write(tmp_path, "edited", "def make(n):\n    return n + 1\n")
    with adversary.imported(tmp_path):
        prog, _ = adversary.modules("edited")
        key = FunctionTracker(prog.make).source_key((1,), {})
        assert key.traced(None).digest == key.digest
        (tmp_path / "edited_prog.py").write_text("def make(n):\n    return n + 22\n")
        refused = FunctionTracker(prog.make).source_key((1,), {}).traced(None)
        assert refused.digest is None and "edited_prog.py" in refused.reason


def test_a_trace_that_changes_what_it_reads_is_not_recorded(tmp_path):
    adversary.write(tmp_path, "counting", "SEEN = []\n\ndef make(n):\n    SEEN.append(n)\n    return len(SEEN)\n")
    with adversary.imported(tmp_path):
        prog, _ = adversary.modules("counting")
        key = FunctionTracker(prog.make).source_key((1,), {})
        assert key.digest is not None
        prog.make(1)
        assert "changes what it reads" in key.traced(None).reason


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
    keys = {FunctionTracker(make, extra).source_key((1,), {}).digest for extra in options}
    assert len(keys) == len(options)


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
