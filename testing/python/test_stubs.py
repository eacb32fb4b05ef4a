"""Editors know every public name."""

import ast

import pytest

import tilelang
from testing.stubs import PACKAGES, stub_path, stub_text


@pytest.mark.parametrize("package", PACKAGES)
def test_stubs_agree_with_the_implementation(package):
    assert stub_path(package).read_text() == stub_text(package), "run python -m testing.stubs"


@pytest.mark.parametrize("module", [tilelang, tilelang.language])
def test_stubs_have_every_public_name(module):
    tree = ast.parse(stub_path(module.__name__).read_text())
    named = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    named |= {alias.asname for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}
    named |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert set(module.__all__) <= named


def test_the_package_says_that_it_is_typed():
    assert stub_path("tilelang").with_name("py.typed").exists()
