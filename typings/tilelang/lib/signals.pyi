"""The compiled check for signals, ``src/cython/signals.pyx``."""

class SignalWatch:
    error: BaseException | None

    def __call__(self) -> bool: ...
