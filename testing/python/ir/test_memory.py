"""Memory scopes have one vocabulary: passes ask ``ir/memory.py`` where a buffer lies, and spell no scope themselves."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import tilelang
from tilelang.ir import memory

PACKAGE = Path(tilelang.__file__).parent
PASSES = ("transform", "tileop", "frontend", "target", "interpreter")
_SPELLED = re.compile(r'"(shared|local)\.[a-z]|scope(\(\))? (==|!=|in|not in) [("]|scope="[a-z]')


def test_passes_spell_no_scope():
    files = [path for part in PASSES for path in sorted((PACKAGE / part).rglob("*.py"))]
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if _SPELLED.search(line)
    ]
    assert len(files) > 200 and not found


@pytest.mark.parametrize(
    ("scope", "questions"),
    [
        ("", {"is_global", "is_memory"}),
        (memory.GLOBAL, {"is_global", "is_memory"}),
        (memory.SHARED, {"is_shared", "is_memory", "lies_in_shared"}),
        (memory.STATIC_SHARED, {"is_shared", "is_memory", "lies_in_shared"}),
        (memory.BARRIER, {"is_barrier", "lies_in_shared"}),
        (memory.CLUSTER_BARRIER, {"is_barrier", "lies_in_shared"}),
        (memory.TENSOR_MEMORY, {"lies_in_shared"}),
        (memory.FRAGMENT, {"is_fragment", "is_declared_fragment", "lies_in_registers"}),
        (memory.SHARED_FRAGMENT, {"is_shared", "is_memory", "is_declared_fragment", "lies_in_shared"}),
        (memory.ARRAY, {"is_array", "is_local", "lies_in_registers"}),
        (memory.VARIABLE, {"is_variable", "is_local", "lies_in_registers"}),
    ],
)
def test_each_scope_answers_the_same_for_a_buffer_and_a_region(scope, questions):
    every = {name: ask for name, ask in vars(memory).items() if name.startswith(("is_", "lies_"))}
    for place in (SimpleNamespace(scope=scope), SimpleNamespace(scope=lambda: scope)):
        assert {name for name, ask in every.items() if ask(place)} == questions
