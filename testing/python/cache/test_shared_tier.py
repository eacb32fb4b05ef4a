"""The tier that hosts share, on a real PostgreSQL: every "host" is a directory of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import warnings

import pytest
from sqlalchemy import create_engine, func, select, update

from tilelang.cache import ranks
from tilelang.cache.database import schema
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys.source_key import SourceKey
from tilelang.cache.travel import shared_tier
from tilelang.errors import CacheWarning

from . import fakes, postgres

SOURCE = SourceKey("7" * 64, "module.make")


def never():
    raise AssertionError("compiled although the shared tier has it")


@pytest.fixture(scope="module")
def server():
    with postgres.server() as running:
        yield running


@pytest.fixture
def url(server, monkeypatch):
    """The URL of an empty tier, set in the environment."""
    engine = create_engine(server.url)
    schema.shared_metadata.drop_all(engine)
    engine.dispose()
    return use(monkeypatch, server.url)


def use(monkeypatch, url: str) -> str:
    monkeypatch.setenv("TILELANG_CACHE_URL", url)
    monkeypatch.setattr(shared_tier, "_tiers", {})
    return url


@pytest.fixture
def hosts(tmp_path):
    """Two hosts."""
    return KernelCache(tmp_path / "one"), KernelCache(tmp_path / "two")


def sent() -> None:
    assert shared_tier.current().flush(10)


def rows(url: str, table) -> int:
    engine = create_engine(url)
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_what_one_host_compiles_the_other_reads(url, hosts):
    first, second = hosts
    assert first.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE).origin == "compiled"
    sent()
    entry = second.lookup_or_compile(fakes.key(), never)
    assert entry.origin == "shared" and entry.path.is_relative_to(second.root)
    assert entry.artifact.files["kernel_lib.so"] == fakes.artifact().files["kernel_lib.so"]
    assert second.disk.index.totals()[1] == 1
    assert KernelCache(second.root).lookup_or_compile(fakes.key(), never).origin == "disk"


def test_source_keys_are_shared(url, hosts):
    first, second = hosts
    first.lookup_or_compile(fakes.key(), fakes.artifact, SOURCE)
    sent()
    assert second.lookup_source(SOURCE).origin == "shared"
    assert second.lookup_source(SourceKey("8" * 64)) is None


def test_any_sqlalchemy_database_works(monkeypatch, hosts, tmp_path):
    use(monkeypatch, f"sqlite:///{tmp_path / 'shared.db'}")
    first, second = hosts
    first.lookup_or_compile(fakes.key(), fakes.artifact)
    sent()
    assert second.lookup_or_compile(fakes.key(), never).origin == "shared"


@pytest.mark.parametrize("victim", ["kernel_lib.so", "params.pkl", "manifest.json"])
def test_an_entry_that_arrives_damaged_is_compiled_again(url, hosts, victim):
    first, second = hosts
    first.lookup_or_compile(fakes.key(), fakes.artifact)
    sent()
    engine = create_engine(url)
    with engine.begin() as connection:
        change = update(schema.blobs).where(schema.blobs.c.name == victim).values(content=b"other")
        assert connection.execute(change).rowcount == 1
    with pytest.warns(CacheWarning, match="is damaged and compiled here"):
        assert second.lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"


WORKER = """
import sys, time
from cache import fakes
from tilelang.cache.kernel_cache import KernelCache

log, seconds = sys.argv[1], float(sys.argv[2])

def compile():
    with open(log, "a") as file:
        file.write("x")
    time.sleep(seconds)
    return fakes.artifact()

print(KernelCache().lookup_or_compile(fakes.key(), compile).origin, flush=True)
"""


def start(url: str, root, log, seconds: float) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": fakes.python_path(), "TILELANG_CACHE_DIR": str(root)}
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(log), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**environment, "TILELANG_CACHE_URL": url, "TILELANG_CACHE_URL_TIMEOUT": "10"},
    )


def test_hosts_compile_a_kernel_once(url, tmp_path):
    log = tmp_path / "log"
    hosts = [start(url, tmp_path / f"host{n}", log, 0.5) for n in range(4)]
    origins = sorted(host.communicate(timeout=60)[0].strip() for host in hosts)
    assert origins == ["compiled", "shared", "shared", "shared"]
    assert log.read_text() == "x"


def test_a_killed_host_lets_the_next_one_go_on(url, tmp_path):
    log = tmp_path / "log"
    first = start(url, tmp_path / "host0", log, 60)
    while not log.exists():
        time.sleep(0.01)
    second = start(url, tmp_path / "host1", log, 0)
    time.sleep(0.5)
    assert second.poll() is None
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert second.communicate(timeout=20)[0].strip() == "compiled"
    assert log.read_text() == "xx"


def test_the_same_kernel_sent_twice(url, hosts):
    first, _ = hosts
    path = first.lookup_or_compile(fakes.key(), fakes.artifact).path
    sent()
    before = rows(url, schema.blobs)
    shared_tier.Flight(shared_tier.current(), fakes.key().digest, None, None).send(path)
    sent()
    assert rows(url, schema.blobs) == before and shared_tier.current().is_up


# -- a server that is not there -------------------------------------------------------------------------------------


def compile_without(hosts, limit: float) -> None:
    """Three kernels are compiled, with one warning and at most ``limit`` seconds lost."""
    first, _ = hosts
    started = time.monotonic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("add", "sub", "mul"):
            assert first.lookup_or_compile(fakes.key(name), fakes.artifact, SOURCE).origin == "compiled"
        assert first.lookup_source(SourceKey("9" * 64)) is None
    assert time.monotonic() - started < limit
    messages = [str(warning.message) for warning in caught if issubclass(warning.category, CacheWarning)]
    assert len(messages) == 1 and "is left out for 30 s" in messages[0], messages


def test_the_server_is_not_running(monkeypatch, hosts):
    use(monkeypatch, f"postgresql+psycopg://tester@127.0.0.1:{postgres.free_port()}/postgres")
    compile_without(hosts, 1.5)


def test_the_server_accepts_and_does_not_answer(monkeypatch, hosts):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("TILELANG_CACHE_URL_TIMEOUT", "0.3")
        use(monkeypatch, f"postgresql+psycopg://tester@127.0.0.1:{silent.getsockname()[1]}/postgres")
        compile_without(hosts, 1.5)


def test_a_wrong_url(monkeypatch, hosts):
    use(monkeypatch, "nonsense://nowhere")
    compile_without(hosts, 1.5)


def test_the_server_stops_and_comes_back(server, url, hosts, monkeypatch):
    first, second = hosts
    first.lookup_or_compile(fakes.key(), fakes.artifact)
    sent()
    server.stop()
    try:
        with pytest.warns(CacheWarning, match="left out"):
            assert second.lookup_or_compile(fakes.key("sub"), fakes.artifact).origin == "compiled"
    finally:
        server.start()
    monkeypatch.setattr(shared_tier.current(), "_down_until", 0.0)
    assert second.lookup_or_compile(fakes.key(), never).origin == "shared"


# -- ranks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("others", "origin"), [((True, True), "disk"), ((True, False), "compiled")])
def test_all_ranks_hit_or_all_compile(cache, others, origin):
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    told = []

    def gather(hit):
        told.append(hit)
        return [hit, *others]

    compiled = []

    def compile():
        compiled.append(1)
        return fakes.artifact()

    entry = ranks.lookup_or_compile_together(fakes.key(), compile, KernelCache(), gather)
    assert told == [True] and entry.origin == origin and len(compiled) == (origin == "compiled")


RANK = """
import sys
import torch.distributed as distributed
from cache import fakes
from tilelang.cache import ranks
from tilelang.cache.kernel_cache import KernelCache

rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
cache = KernelCache(sys.argv[3] + str(rank))
if rank == 0:
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
origins = [ranks.lookup_or_compile_together(fakes.key(), fakes.artifact, cache).origin for _ in range(2)]
print(*origins)
"""


def test_ranks_of_torch_distributed(tmp_path):
    command = [sys.executable, "-c", RANK]
    environment = {**os.environ, "PYTHONPATH": fakes.python_path(), "GLOO_SOCKET_IFNAME": "lo"}
    workers = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "meet"), str(tmp_path / "rank")],
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env=environment,
        )
        for rank in range(2)
    ]
    answers = [worker.communicate(timeout=120)[0].split() for worker in workers]
    assert answers == [["compiled", "memory"], ["compiled", "disk"]]
