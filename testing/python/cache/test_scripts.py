"""Groups of kernels with readable names, and dispatch tables."""

from __future__ import annotations

import os

import pytest

from tilelang.cache.command.maintenance import clear, collect
from tilelang.cache.dispatch import DispatchTable, Row, distance
from tilelang.cache.entries import scripts
from tilelang.cache.kernel_cache import KernelCache

from . import fakes


def test_kernels_are_grouped_by_name_and_target(cache, own_cache):
    keys = [
        cache.lookup_or_compile(key, fakes.artifact).key
        for key in (fakes.key("add"), fakes.key("add", compile_flags=("-O3",)), fakes.key("add", target="{}"), fakes.key("sub"))
    ]
    programs = own_cache / "scripts" / "add" / scripts.group_of("add", fakes.TARGET) / "programs"
    assert sorted(os.listdir(programs)) == ["0", "1"]
    assert (programs / "0" / "device_kernel.cu").read_text() == "// add"
    assert [os.path.basename(os.path.realpath(programs / n)) for n in "01"] == keys[:2]
    assert len(list((own_cache / "scripts" / "add").iterdir())) == 2 and (own_cache / "scripts" / "sub").is_dir()


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".", "..", "make.<locals>.main", "x" * 300, "é\0"])
def test_names_of_kernels_stay_inside_the_scripts_folder(tmp_path, name):
    place = scripts.folder(tmp_path, name, "a" * 64)
    assert place.parent.parent == tmp_path / "scripts" and place.parent.name not in ("", ".", "..")
    assert scripts.link(tmp_path, name, "a" * 64, "b" * 64).is_symlink()


def test_links_go_with_their_entries(cache, own_cache):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    cache.forget()
    cache.disk.release_leases()
    scripts.link(own_cache, "other", "c" * 64, "d" * 64)
    collect(cache.root, cache.disk.index, 0)
    assert os.listdir(own_cache / "scripts" / "add") != [] and os.listdir(own_cache / "scripts" / "other") == []
    clear(cache.root, cache.disk.index)
    assert os.listdir(own_cache / "scripts" / "add") == []


# -- dispatch -------------------------------------------------------------------------------------------------------


def table(cache: KernelCache | None = None, task: str | None = "7" * 64) -> DispatchTable:
    return DispatchTable(cache.disk if cache else None, task, "gemm", "{}", ("m", "n"))


def rows() -> list[Row]:
    return [Row((16, 64), "a" * 64, {"block": 16}, 1e-4), Row((4096, 64), "b" * 64, {"block": 128}, 1e-3)]


def test_exact_then_nearest_by_ratio():
    dispatch = table()
    assert dispatch.choose((1, 1)) is None
    for row in rows():
        dispatch.put(row)
    picks = {sizes: dispatch.choose(sizes).config["block"] for sizes in ((16, 64), (100, 64), (300, 64), (9999, 1), (0, 0))}
    assert picks == {(16, 64): 16, (100, 64): 16, (300, 64): 128, (9999, 1): 128, (0, 0): 16}
    assert distance((8, 8), (16, 4)) == 2


def test_a_table_is_kept_and_can_be_read(cache, own_cache):
    for row in rows():
        table(cache).put(row)
    again = table(KernelCache())
    assert again.rows == {row.sizes: row for row in rows()}
    text = (own_cache / "scripts" / "gemm" / ("7" * 16) / "dispatch_table.txt").read_text()
    assert text.splitlines()[1:] == [
        "m n seconds kernel config",
        '16 64 1.000e-04 aaaaaaaaaaaa {"block": 16}',
        '4096 64 1.000e-03 bbbbbbbbbbbb {"block": 128}',
    ]
    better = Row((16, 64), "c" * 64, {"block": 32}, 5e-5)
    again.put(better)
    assert again.choose((16, 64)) == better and table(KernelCache()).choose((16, 64)) == better


def test_a_task_that_cannot_be_kept_stays_in_memory(cache, own_cache):
    dispatch = table(cache, task=None)
    dispatch.put(rows()[0])
    assert dispatch.choose((1, 1)) == rows()[0]
    assert not own_cache.exists() or not (own_cache / "scripts").exists()


def test_a_search_marks_its_kernels(cache):
    from tilelang.cache.command.catalog import Catalog, Filter

    entry = cache.lookup_or_compile(fakes.key(), fakes.artifact)
    cache.lookup_or_compile(fakes.key("sub"), fakes.artifact)
    table(cache).put(Row((1, 1), entry.key, {}, 1.0))
    catalog = Catalog(cache.disk.index)
    assert [row["name"] for row in catalog.kernels(Filter(space=2))] == ["add"]
    cache.disk.index.set_space([entry.key], 1)
    assert [row["space"] for row in catalog.kernels(Filter(name="add"))] == [2]
