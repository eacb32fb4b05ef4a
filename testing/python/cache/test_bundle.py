"""Bundles come from elsewhere: whatever they hold, nothing leaves the cache's directory and nothing unverified is added."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from tilelang.cache.entries import sources, store
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys.source_key import SourceKey
from tilelang.cache.travel import bundle
from tilelang.errors import CacheError

from . import fakes


@pytest.fixture
def members(cache, tmp_path) -> dict[str, bytes]:
    """Name -> content of a good bundle."""
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    bundle.export(cache.root, [fakes.key().digest], tmp_path / "good.tar.gz")
    with tarfile.open(tmp_path / "good.tar.gz") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def pack(file: Path, members: dict[str, bytes], *extra: tarfile.TarInfo) -> Path:
    with tarfile.open(file, "w:gz") as archive:
        for member in extra:
            archive.addfile(member)
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


def import_into(tmp_path: Path, file: Path) -> tuple[bundle.Imported, KernelCache]:
    target = KernelCache(tmp_path / "target")
    return bundle.load(target.root, target.disk.index, file), target


def everything_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "kernels/../evil", "kernels/{key}/../../evil", "other/x"])
def test_path_traversal_is_refused(members, tmp_path, name):
    name = name.format(key=fakes.key().digest)
    before = everything_below(tmp_path)
    found, target = import_into(tmp_path, pack(tmp_path / "bad.tar.gz", {**members, name: b"evil"}))
    assert list(found.refused) == [name] and found.added == [fakes.key().digest]
    new = everything_below(tmp_path) - before
    assert all(path.startswith("target") or path == "bad.tar.gz" for path in new)
    assert not any("evil" in path for path in new)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_links_and_devices_are_refused(members, tmp_path, kind):
    member = tarfile.TarInfo(f"kernels/{fakes.key().digest}/extra.txt")
    member.type, member.linkname = kind, "/etc/passwd"
    found, target = import_into(tmp_path, pack(tmp_path / "bad.tar.gz", members, member))
    assert found.refused == {member.name: "not a plain file"}
    assert not (store.entry_path(target.root, fakes.key().digest) / "extra.txt").exists()


@pytest.mark.parametrize("victim", ["manifest.json", "params.pkl", "kernel_lib.so"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_entry_is_refused(members, tmp_path, victim, damage):
    name = f"kernels/{fakes.key().digest}/{victim}"
    content = bytearray(members.pop(name))
    content[len(content) // 2] ^= 1
    if damage != "remove":
        members[name] = bytes(content) if damage == "flip" else bytes(content[:-3])
    found, target = import_into(tmp_path, pack(tmp_path / "bad.tar.gz", members))
    assert found.added == [] and list(found.refused) == [fakes.key().digest]
    assert list(store.keys(target.root)) == []


LINK = "6" * 64


def links(*pairs: tuple[str, str]) -> bytes:
    return json.dumps(dict(pairs)).encode()


def test_a_bundle_links_only_to_its_own_kernels(members, tmp_path):
    target = KernelCache(tmp_path / "target")
    theirs = target.lookup_or_compile(fakes.key("sub"), fakes.artifact).key
    content = links((LINK, theirs), ("7" * 64, fakes.key().digest))
    import_into(tmp_path, pack(tmp_path / "b.tar.gz", {**members, "sources.json": content}))
    assert dict(sources.links(target.root)) == {"7" * 64: fakes.key().digest}


@pytest.mark.parametrize("own", ["before", "after"])
def test_a_bundle_never_changes_a_link(members, tmp_path, own):
    target = KernelCache(tmp_path / "target")
    theirs = target.lookup_or_compile(fakes.key("sub"), fakes.artifact, SourceKey(LINK, "m.f")).key
    content = {"sources.json": links((LINK, fakes.key().digest))}
    found, _ = import_into(
        tmp_path, pack(tmp_path / "b.tar.gz", {**content, **members} if own == "after" else {**members, **content})
    )
    assert dict(sources.links(target.root)) == {LINK: theirs}
    assert found.added == [fakes.key().digest]
    assert found.refused == ({LINK: f"this source key leads to another kernel here, {theirs[:12]}"} if own == "before" else {})


def test_a_file_that_the_manifest_does_not_list_is_refused(members, tmp_path):
    name = f"kernels/{fakes.key().digest}/zz_extra.txt"
    found, target = import_into(tmp_path, pack(tmp_path / "b.tar.gz", {**members, name: b"x"}))
    assert found.refused == {name: "the manifest before it lists no such file"} and found.added == [fakes.key().digest]
    assert not (store.entry_path(target.root, fakes.key().digest) / "zz_extra.txt").exists()


def test_files_before_their_manifest_are_refused(members, tmp_path):
    backwards = dict(reversed(members.items()))
    found, target = import_into(tmp_path, pack(tmp_path / "b.tar.gz", backwards))
    assert list(found.refused) == [fakes.key().digest] and found.added == []
    assert list(store.keys(target.root)) == []


@pytest.mark.parametrize("name", ["kernels/{key}/kernel_lib.so", "sources.json", "kernels/{key}/manifest.json"])
def test_a_bundle_that_decompresses_to_more_than_it_lists_is_given_up(members, tmp_path, name):
    member = tarfile.TarInfo(name.format(key=fakes.key().digest))
    member.size = 1 << 40
    good = {f"kernels/{fakes.key().digest}/manifest.json": members[f"kernels/{fakes.key().digest}/manifest.json"]}
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for file, content in good.items():
            head = tarfile.TarInfo(file)
            head.size = len(content)
            archive.addfile(head, io.BytesIO(content))
    file = tmp_path / "bomb.tar.gz"
    file.write_bytes(
        gzip.compress(raw.getvalue().rstrip(b"\0") + bytes(-len(raw.getvalue().rstrip(b"\0")) % 512) + member.tobuf())
    )
    with pytest.raises(CacheError, match="which no manifest before it lists"):
        import_into(tmp_path, file)
    assert list(store.keys(tmp_path / "target")) == []


def test_a_header_that_asks_for_more_than_memory_is_refused(tmp_path):
    member = tarfile.TarInfo("pax")
    member.type, member.size = tarfile.XHDTYPE, 1 << 29
    file = tmp_path / "bomb.tar.gz"
    file.write_bytes(gzip.compress(member.tobuf()))
    with pytest.raises(CacheError, match="a part of it is larger"):
        import_into(tmp_path, file)


def test_an_entry_under_another_key_is_refused(members, tmp_path):
    renamed = {name.replace(fakes.key().digest, "a" * 64): content for name, content in members.items()}
    found, _ = import_into(tmp_path, pack(tmp_path / "bad.tar.gz", renamed))
    assert "made for another key" in found.refused["a" * 64]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", json.dumps({"x": "y", "1" * 64: 5}).encode()])
def test_wrong_links_are_ignored(members, tmp_path, content):
    found, target = import_into(tmp_path, pack(tmp_path / "b.tar.gz", {**members, "sources.json": content}))
    assert found.added == [fakes.key().digest] and found.refused == {}
    assert list((target.root / "sources").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"hello", gzip.compress(b"hello" * 1000, mtime=0), b"\x1f\x8b\x08garbage"])
def test_a_file_that_is_no_bundle(tmp_path, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(CacheError, match="is not a bundle"):
        import_into(tmp_path, file)


def test_an_export_does_not_carry_paths_or_owners(members, tmp_path):
    with tarfile.open(tmp_path / "good.tar.gz") as archive:
        assert {(member.uid, member.mtime, member.uname) for member in archive} == {(0, 0, "")}
    assert not any(str(tmp_path).encode() in content for content in members.values())
