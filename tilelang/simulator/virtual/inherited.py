"""New interpreters that a program on the virtual device starts (``spawn``, ``subprocess``) have the same device."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilelang import env

_STARTUP = Path(__file__).resolve().with_name("startup")
"""Has a ``sitecustomize.py``, which Python imports first, whatever the new interpreter runs (:mod:`site`)."""

_entered = contextlib.ExitStack()
"""The device of an interpreter that another one has started."""


@contextlib.contextmanager
def inherited(settings: dict[str, Any]) -> Iterator[None]:
    """While this lasts, interpreters that this one starts enter the device when they have imported torch.

    Args:
        settings: keyword arguments of :func:`~tilelang.simulator.virtual.session.virtual_device` that JSON can carry.
    """
    paths = [str(_STARTUP), *filter(None, [env.get("PYTHONPATH")])]
    with env.overridden("TILELANG_VIRTUAL_DEVICE", json.dumps(settings)), env.overridden("PYTHONPATH", os.pathsep.join(paths)):
        yield


def enter() -> None:
    """Enters the device that this interpreter inherits, until it ends or enters another one."""
    from tilelang.simulator.virtual.session import virtual_device

    settings = json.loads(env.get("TILELANG_VIRTUAL_DEVICE"))
    atexit.register(leave)
    _entered.enter_context(virtual_device(**settings))


def leave() -> None:
    """Ends the inherited device, if there is one."""
    _entered.close()
