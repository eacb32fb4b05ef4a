"""What the kernel says of the processor, as a target."""

from __future__ import annotations

import builtins
import io

import pytest

from tilelang.target import host
from tilelang.target.info import parse_target

FLAGS = "fpu sse4_2 popcnt ssse3 avx avx2 fma bmi1 bmi2 f16c avx512f avx512bw avx512cd avx512dq avx512vl avx512_bf16"


@pytest.fixture
def processor(monkeypatch):
    def of(vendor: str):
        text = (
            f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: {FLAGS}\n\nprocessor\t: 1\nvendor_id\t: other\nflags\t\t: fpu\n"
        )
        monkeypatch.setattr(host.platform, "machine", lambda: "x86_64")
        monkeypatch.setattr(builtins, "open", lambda *_, **__: io.StringIO(text))
        host.host_cpu.cache_clear()
        try:
            return host.host_cpu()
        finally:
            monkeypatch.undo()
            host.host_cpu.cache_clear()

    return of


@pytest.mark.parametrize(("vendor", "slow"), [("GenuineIntel", True), ("AuthenticAMD", False)])
def test_dot_products_of_bfloat16_are_slow_on_intel(processor, vendor, slow):
    found = processor(vendor)
    assert found.arch == "x86-64-v4"
    assert "avx512bf16" in found.features
    assert (host.SLOW_BF16_DOT in found.features) == slow


def test_compilers_get_instruction_sets_alone():
    info = parse_target({"kind": "c", "features": ["avx512f", "avx512bf16", host.SLOW_BF16_DOT]})
    assert host.SLOW_BF16_DOT in info.text  # it changes the code, so it is in the key
    assert info.instruction_sets == ("avx512bf16", "avx512f")
