"""The source distribution has everything that a wheel is built from, and nothing that was built."""

import tarfile
from pathlib import Path

import pytest
from scikit_build_core.build import build_sdist

ROOT = Path(__file__).resolve().parents[2]
FILES = ("CMakeLists.txt", "CONTRIBUTING.md", "LICENSE", "README.md", "dev.py", "mkdocs.yml", "pyproject.toml", "ruff.toml")
FOLDERS = ("3rdparty", "benchmark", "docs", "examples", "src", "testing", "tilelang", "typings")
BUILT = {".so", ".o", ".pyc", ".whl"}


def is_source(path: Path) -> bool:
    generated = path.suffix in BUILT or "__pycache__" in path.parts or ROOT / "tilelang" / "lib" in path.parents
    return path.is_file() and not generated


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> set[str]:
    """Names in the archive, relative to its top folder."""
    folder = tmp_path_factory.mktemp("sdist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)  # a build backend works on the current directory
        archive = build_sdist(str(folder))
    with tarfile.open(folder / archive) as tar:
        return {name.partition("/")[2] for name in tar.getnames()}


def test_every_source_file_is_packed(packed):
    sources = {path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*") if is_source(path)}
    assert {*FILES, *sources} <= packed


def test_nothing_built_and_no_environment_is_packed(packed):
    assert not [name for name in packed if Path(name).suffix in BUILT]
    assert not {name.partition("/")[0] for name in packed} & {".venv", "build", "dist", ".git"}
