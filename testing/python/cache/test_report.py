"""The report in a real browser: its script runs, sorts, filters, and shows hostile names as text."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from testing.browser import dom
from tilelang.cache.command import report
from tilelang.cache.command.catalog import Catalog
from tilelang.cache.kernel_cache import KernelCache

from . import fakes

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture
def page(cache, tmp_path) -> Path:
    for name, size in (("add", 100), ("gemm", 50_000), (HOSTILE, 10)):
        cache.lookup_or_compile(fakes.key(name), lambda size=size: fakes.artifact(size=size))
    cache.lookup_or_compile(fakes.key("add", compile_flags=("-O3",)), fakes.artifact)
    for _ in range(3):
        KernelCache().lookup_or_compile(fakes.key("gemm"), fakes.artifact)
    file = tmp_path / "report.html"
    file.write_text(report.page(cache.root, Catalog(cache.disk.index)), encoding="utf-8")
    return file


def names(document: str) -> list[str]:
    """The second column of the table of kernels."""
    body = re.search(r'<table id="kernels">.*?<tbody>(.*?)</tbody>', document, re.S).group(1)
    rows = re.findall(r"<tr.*?>(.*?)</tr>", body, re.S)
    return [html.unescape(re.findall(r"<td.*?>(.*?)</td>", row, re.S)[1]) for row in rows]


def test_the_page_shows_the_cache(page):
    document = dom(page)
    assert "<title>tilelang kernel cache</title>" in document
    assert sorted(names(document)) == sorted(["add", "add", "gemm", HOSTILE])
    sums = re.search(r'<div id="sums">(.*?)</div><h2>|<div id="sums">(.*?)<h2>', document, re.S).group(0)
    assert "<b>4</b>kernels" in sums and "<b>3</b>hits" in sums and "<b>43 %</b>hit rate" in sums
    assert "changed: compile_flags" in document and "first of its name" in document
    assert "4 of 4" in document


def test_sorting_and_filtering(page):
    assert names(dom(page, "#sort=bytes"))[0] == "gemm"
    assert names(dom(page, "#sort=bytes&order=up&filter=gemm")) == ["gemm"]
    assert "1 of 4" in dom(page, "#filter=gemm")


def test_the_page_is_self_contained(page):
    text = page.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text)
    assert "</script><script>document.title" not in text
