"""Execution backends on a CUDA driver: that of the tests, over the simulator (:mod:`testing.driver`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing import driver
from tilelang.execution.registry import supported

from . import handmade

PROGRAMS = Path(driver.__file__).parent / "programs"
BACKENDS = supported("cuda")


def lines(program: str, *arguments: str, **settings: str) -> list[str]:
    return driver.run(PROGRAMS / program, *arguments, **settings).splitlines()


def test_the_driver_answers_as_documented(tmp_path):
    handmade.cuda_artifact("nvrtc", tmp_path)
    expected = ["order of errors", "modules", "launches", "functions", "tensor maps", "streams", "sticky errors"]
    assert lines("calls.py", str(tmp_path / "kernel.ptx")) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_on_one_device(backend):
    assert lines("one_device.py", backend, checks="all") == [
        "dynamic_sizes", "tensor_maps_and_clusters", "cooperative_launches", "streams", "order_between_streams",
        "no_order_between_streams", "threads_without_context", "threads_with_streams", "wrong_numbers_of_arguments",
        "refused_arguments",
    ]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sticky_error_names_its_kernel_and_the_drivers_message(backend):
    found = lines("failures.py", backend)
    assert found[:4] == ["good True", "launched torch.Size([2, 128])", "synchronise 700", "allocate 700"]
    assert "an illegal memory access was encountered" in found[4]


def test_all_backends_on_two_devices():
    found = lines("several_devices.py", devices="9.0,8.0")
    assert found[::2] == BACKENDS
    assert all("compiled for sm_90a" in line and "a PTX JIT compilation failed" in line for line in found[1::2]), found
