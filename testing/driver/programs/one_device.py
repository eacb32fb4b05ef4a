"""What an execution backend asks of the driver on one device: ``python one_device.py BACKEND``."""

from __future__ import annotations

import ctypes
import sys
import threading

from testing.driver import api, torch_device

torch_device.install()

import torch  # noqa: E402 - the device is there before tilelang asks for it

from testing.driver.programs import kernels  # noqa: E402
from tilelang.errors import ArgumentError  # noqa: E402

backend = sys.argv[1]
scale = kernels.scale(backend)


def device(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cuda:0")


def bytes_now(tensor: torch.Tensor) -> bytes:
    """What is in the device's memory, without waiting for anything."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def dynamic_sizes() -> None:
    for rows in (1, 5):
        given = torch.randn(rows, 128)
        made = scale(device(given), 3.0)
        assert made.device == torch.device("cuda:0")
        assert torch.equal(made.cpu(), given * 3)
    assert scale(device(torch.empty(0, 128)), 1.0).shape == (0, 128)


def tensor_maps_and_clusters() -> None:
    a, b = (torch.randn(256, 256).half() for _ in range(2))
    product = kernels.gemm(backend)(device(a), device(b))
    torch.testing.assert_close(product.cpu().float(), a.float() @ b.float(), rtol=2e-3, atol=2e-2)


def cooperative_launches() -> None:
    given, out = torch.ones(1024), device(torch.zeros(1024))
    kernels.two_passes(backend)(device(given), device(torch.zeros(8)), out)
    assert torch.equal(out.cpu(), 1024 + torch.arange(1024.0))


def streams() -> None:
    given = torch.randn(2, 128)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        made = scale(device(given), 2.0)
    torch_device.current_stream().synchronize()
    assert bytes_now(made) == b"\xff" * 1024, "done on another stream than the current one, or before anybody waited"
    stream.synchronize()
    assert bytes_now(made) == bytes((given * 2).numpy())


def order_between_streams() -> None:
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    given = torch.randn(2, 128)
    with torch.cuda.stream(first):
        once = scale(device(given), 2.0)
    second.wait_stream(first)
    with torch.cuda.stream(second):
        twice = scale(once, 4.0)
    second.synchronize()
    assert bytes_now(twice) == bytes((given * 8).numpy())


def no_order_between_streams() -> None:
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(first):
        once = scale(device(torch.randn(2, 128)), 2.0)
    with torch.cuda.stream(second):
        twice = scale(once, 4.0)
    torch.cuda.synchronize()
    assert torch.isfinite(once.cpu()).all() and torch.isnan(twice.cpu()).all(), "the second did not come first"


def threads_without_context() -> None:
    kernel, given = kernels.scale(backend), torch.randn(4, 128)
    inputs = [(device(given + i), float(i)) for i in range(8)]
    made: dict[int, torch.Tensor] = {}

    def work(i: int) -> None:
        assert api.value("cuCtxGetCurrent") is None
        made[i] = kernel(*inputs[i])

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(torch.equal(made[i].cpu(), (given + i) * i) for i in range(8))


def threads_with_streams() -> None:
    """Each thread has a chain of launches on a stream of its own; what another thread waits for changes nothing."""
    given = torch.randn(2, 128)
    inputs = [device(given + i) for i in range(4)]
    made: dict[int, bytes] = {}

    def work(i: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            result = scale(scale(scale(inputs[i], 2.0), 2.0), 2.0)
        stream.synchronize()
        made[i] = bytes_now(result)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert made == {i: bytes(((given + i) * 8).numpy()) for i in range(4)}


def wrong_numbers_of_arguments() -> None:
    given = device(torch.randn(2, 128))
    for arguments in ((), (given,), (given, 2.0, given, 3.0)):
        try:
            scale(*arguments)
        except (ArgumentError, TypeError) as error:
            assert "argument" in str(error), error
        else:
            raise AssertionError(f"{len(arguments)} arguments were taken")
    assert torch.equal(scale(given, 1.0).cpu(), given.cpu()), "a refused call has an effect on a later one"


def refused_arguments() -> None:
    for wrong in (torch.randn(2, 64), torch.randn(2, 128).double()):
        try:
            scale(device(wrong), 1.0)
        except ArgumentError as error:
            assert "argument A" in str(error)
        else:
            raise AssertionError("a wrong argument was taken")
    try:
        scale(torch.randn(2, 128), 1.0)
    except ArgumentError as error:
        assert "cuda" in str(error), error
    else:
        raise AssertionError("a tensor on the CPU was taken")


CHECKS = (
    dynamic_sizes, tensor_maps_and_clusters, cooperative_launches, streams, order_between_streams, no_order_between_streams,
    threads_without_context, threads_with_streams, wrong_numbers_of_arguments, refused_arguments,
)  # fmt: skip

for check in CHECKS:
    check()
    print(check.__name__, flush=True)
