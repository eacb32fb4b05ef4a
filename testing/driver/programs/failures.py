"""The error of a call whose kernel breaks the CUDA context: ``python failures.py BACKEND``."""

from __future__ import annotations

import ctypes
import sys

from testing.driver import api, torch_device

torch_device.install()

import torch  # noqa: E402 - the device is there before tilelang asks for it

from testing.driver.programs import kernels  # noqa: E402
from tilelang.errors import ExecutionError  # noqa: E402

scale = kernels.scale(sys.argv[1])
given = torch.randn(2, 128).to("cuda:0")
good = scale(given, 2.0)
print("good", torch.equal(good.cpu(), given.cpu() * 2))
api.call("cuMemFree_v2", ctypes.c_uint64(given.data_ptr()))
bad = scale(given, 2.0)  # reads freed memory: the error appears at the next synchronisation
print("launched", bad.shape)
print("synchronise", api.status_of("cuCtxSynchronize"))
print("allocate", api.status_of("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), 8))
try:
    scale(bad, 2.0)
except (ExecutionError, RuntimeError) as error:
    print(type(error).__name__, str(error).splitlines()[0])
