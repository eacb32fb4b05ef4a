"""All execution backends on two devices, of which the machine code fits the second only."""

from __future__ import annotations

import ctypes

from testing.driver import torch_device

torch_device.install()

import torch  # noqa: E402 - the device is there before tilelang asks for it

from testing.driver.programs import kernels  # noqa: E402
from tilelang.errors import ExecutionError  # noqa: E402
from tilelang.execution.registry import supported  # noqa: E402

for backend in supported("cuda"):
    scale = kernels.scale(backend)
    given = torch.randn(3, 128)
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        made = scale(given.to(device), 2.0)
        assert made.device == torch.device(device)
        assert torch.equal(made.cpu(), given * 2)
        assert torch.cuda.current_device() == 0
    stream = torch.cuda.Stream("cuda:1")
    with torch.cuda.stream(stream):  # of the device that is not the current one
        made = scale(scale(given.to("cuda:1"), 2.0), 2.0)
    stream.synchronize()
    assert ctypes.string_at(made.data_ptr(), 3 * 512) == bytes((given * 4).numpy())
    assert torch.cuda.current_device() == 0
    print(backend, flush=True)
    try:
        scale = kernels.scale(backend, kernels.HOPPER)
        scale(given.to("cuda:1"), 2.0)
    except (ExecutionError, RuntimeError) as error:
        print(str(error).splitlines()[0], flush=True)
