"""No stale result, and no needless miss: the combinations of :mod:`fingerprint.adversary`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilelang.cache.keys import source_key
from tilelang.cache.keys.fingerprint import Fingerprint
from tilelang.fingerprint import watch
from tilelang.fingerprint.recorder import recording

from . import adversary
from .configuration_ways import CONFIGURATION_WAYS

PLAIN = [case for case in adversary.cases(16) if case.use == "directly"]
FILES = ("open", "io.open", "os.open", "read_text", "path.open", "linecache", "exists", "path.exists", "listdir", "glob", "time")


@pytest.fixture(autouse=True)
def one_compiler(tmp_path, monkeypatch):
    """A compiler that never changes, and a place to import cases from."""
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(source_key, "compiler_fingerprint", lambda memo_file: Fingerprint((), True))
    monkeypatch.setattr(source_key.header_watch, "records", list)
    with adversary.imports_from(str(tmp_path)):
        yield


def test_every_change_is_noticed():
    found, count, answered = adversary.stale(places=1)
    assert not {case.title: wrong for case, wrong in found.items()}
    assert count > 800 and answered > 400  # the hidden ways are refused, which is an answer of no cache


def test_every_change_is_noticed_without_the_compiled_helper(tmp_path, monkeypatch):
    monkeypatch.setattr(source_key, "Watch", watch.PythonWatch)
    monkeypatch.setattr(source_key, "Recall", watch.PythonRecall)
    chosen = [case for case in PLAIN if case.change not in (adversary.NEW_PROCESS, adversary.RELOAD)][::4]
    found = {case.title: adversary.stale_within_a_process(case, tmp_path)[0] for case in chosen}
    assert not {title: wrong for title, wrong in found.items() if wrong}


def test_calls_with_other_arguments_are_noticed():
    found, count = adversary.stale_sequences()
    assert not found and count > 100


def test_the_same_text_in_another_directory_hits(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    chosen, kept = list({case.way.name: case for case in PLAIN if case.way.edits}.values()), {}
    for folder in (first, second):
        folder.mkdir()
        with adversary.imports_from(str(folder)):
            before = dict(kept)
            answers = adversary.answers(folder, chosen, adversary.BEFORE, kept)
    assert len(before) > 110
    assert kept == before and sum(hits for _, _, hits in answers.values()) >= len(before)


def test_common_programs_keep_the_shortcut(tmp_path):
    names = {way.name for way in CONFIGURATION_WAYS}
    chosen = {case.way.name: case for case in PLAIN if case.way.name in names}
    reasons = {}
    for name, case in chosen.items():
        adversary.write(tmp_path, case, adversary.BEFORE)
        call = adversary.Cached()
        with adversary.loaded(tmp_path, case) as (prog, _):
            assert not call(prog.make).startswith("raises")
        reasons[name] = call.reason
    # Flags remember what was asked of them; sets of texts have another order in each process; ChainMap is not listed.
    slow = {name for name, reason in reasons.items() if reason}
    assert slow <= {"flags", "keyword configuration", "counter of uses as default dict"}


@pytest.mark.parametrize("name", FILES)
def test_recording_a_run_finds_reads_that_static_analysis_misses(tmp_path, name):
    case = next(case for case in PLAIN if case.way.name == name)
    adversary.write(Path(tmp_path), case, adversary.BEFORE)
    with adversary.loaded(tmp_path, case) as (prog, _), recording() as touched:
        prog.make(7)
    covered = source_key.Describer()
    covered.covered.append(prog.make.__code__)
    assert touched.uncovered([covered]).startswith("it used ")


def test_functions_that_no_name_refers_to_are_reported(tmp_path):
    hidden = []

    def make(n):
        return sorted([n], key=hidden[0])

    with recording() as touched:
        hidden.append(lambda n: n)
        make(1)
    assert "nothing in the code leads to" in touched.uncovered([])
    described = source_key.Describer()
    described.value(make)
    assert "make" in {code.co_name for code in touched.codes}
    assert touched.uncovered([described]) == ""
