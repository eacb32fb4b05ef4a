"""A pytest plugin: ``pytest -p tilelang.simulator.pytest`` runs tests written for torch's device "cuda" without a GPU.

``--simulated-device`` chooses the model that the tests see, ``--simulated-checks`` the checkers.
"""

from __future__ import annotations

from typing import Any

import pytest

_KEY = "tilelang_virtual_device"


def pytest_addoption(parser: Any) -> None:
    """The plugin's options."""
    group = parser.getgroup("tilelang", "tests for CUDA on the simulator")
    group.addoption("--simulated-device", default="h100", help="the GPU that tests see (default: h100)")
    group.addoption("--simulated-devices", type=int, default=1, help="how many of them (default: 1)")
    group.addoption("--simulated-checks", default="all", help="the simulator's checkers (default: all)")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """Installs the device before conftest files are imported, since they query it."""
    _install(early_config, early_config.known_args_namespace)


def pytest_configure(config: Any) -> None:
    """Installs the device where a conftest file names the plugin: test modules are imported later."""
    if not hasattr(config, _KEY):
        _install(config, config.option)


def _install(config: Any, options: Any) -> None:
    from tilelang.errors import SimulatorArgumentError
    from tilelang.simulator.virtual.session import virtual_device

    device = virtual_device(options.simulated_device, devices=options.simulated_devices, checks=options.simulated_checks)
    try:
        setattr(config, _KEY, (device, device.__enter__()))
    except SimulatorArgumentError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_unconfigure(config: Any) -> None:
    """Torch is put back as it was."""
    device, _ = getattr(config, _KEY)
    device.__exit__(None, None, None)


def pytest_report_header(config: Any) -> str:
    """Which device the tests see."""
    return f"cuda: {getattr(config, _KEY)[1].model.name}, simulated"
