"""The closure of included headers holds every file that a compiler's preprocessor reads, over trees of headers made at random."""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tilelang.jit.includes import user_files

FOLDERS = ("first", "second", "second/inner")
NAMES = ("a.h", "b.h", "c.h", "d.h")
TREES = 24

FORMS = (
    '#include "{name}"',
    "#include <{name}>",
    '  #  include /* which */ "{name}" // one',
    '#inc\\\nlude "{name}"',
    '%:include "{name}"',
    '#ifdef SWITCH\n#include "{name}"\n#endif',
    '#if defined(SWITCH) && 1\n#include <{name}>\n#else\n#include "inner/{name}"\n#endif',
    '#if __has_include("{name}")\n#include "{name}"\n#endif',
    "#if __has_include(<inner/{name}>)\n#include <inner/{name}>\n#endif",
    "#include_next <{name}>",
    '#define CHOSEN "{name}"\n#include CHOSEN',
    '#if 0\n#include "missing.h"\n#endif',
    '/* #include "{name}" */',
)


def write_tree(root: Path, seed: int) -> str:
    """Writes headers, each of which includes others; gives the source that includes the first."""
    chance = random.Random(seed)
    for folder in FOLDERS:
        (root / folder).mkdir()
        for name in chance.sample(NAMES, 3):
            lines = [chance.choice(FORMS).format(name=chance.choice(NAMES)) for _ in range(chance.randrange(3))]
            guard = f"GUARD_{folder}_{name}".upper().replace("/", "_").replace(".", "_")
            (root / folder / name).write_text("\n".join([f"#ifndef {guard}", f"#define {guard} 1", *lines, "#endif", ""]))
    return "".join(f"{chance.choice(FORMS[:9]).format(name=name)}\n" for name in chance.sample(NAMES, 2))


def preprocessed(root: Path, source: str, flags: list[str]) -> list[Path] | None:
    """The files of the tree that the preprocessor reads; None where a header is not found."""
    done = subprocess.run(["g++", "-M", "-w", "-x", "c++", *flags, "-"], input=source, capture_output=True, text=True, cwd=root)
    if done.returncode:
        return None
    words = done.stdout.replace("\\\n", " ").split(":", 1)[1].split()
    return [Path(word) for word in words if Path(word).is_relative_to(root)]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler whose preprocessor could be asked")
def test_every_file_that_the_preprocessor_reads_counts(tmp_path):
    compared = 0
    for seed in range(TREES):
        root = tmp_path / str(seed)
        root.mkdir()
        source = write_tree(root, seed)
        folders = [f"-I{root / folder}" for folder in FOLDERS[:2]]
        for flags in (folders, [*folders, "-DSWITCH"]):
            read = preprocessed(root, source, flags)
            if read is None:
                continue
            found = user_files(source, flags, {})
            known = {digest for digests in found.digests.values() for digest in re.findall(r".{64}", digests)}
            missing = {file for file in read if hashlib.sha256(file.read_bytes()).hexdigest() not in known}
            assert found.problem or not missing, f"tree {seed}: {missing}"
            compared += not found.problem and len(read) > 1
    assert compared > 5
