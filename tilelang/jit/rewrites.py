"""The user's functions over generated code (``register_cuda_postproc``, ``register_c_postproc``) as a part of kernel keys.

Such a function counts as one more tool of the compilation, by a token for its registration and the fingerprint of the function.
Kernels that it has changed are found again in this process, as long as the function and all that it reads are what they were.
Where it reads something that has no fingerprint, kernels are compiled at every call and not kept.
"""

from __future__ import annotations

from typing import NamedTuple

from tilelang.fingerprint import Describer, Unfaithful, Watch
from tilelang.target import postproc


class _Described(NamedTuple):
    """A registration as it was described.

    Attributes:
        registration: its token.
        text: identifies the function in keys, by the token and the function's fingerprint.
        problem: why the function has no fingerprint; empty if it has one.
        watch: holds while the function and all that it reads are unchanged.
    """

    registration: str
    text: str
    problem: str
    watch: Watch


_described: dict[str, _Described] = {}


def token(kind: str) -> str:
    """The text that identifies the registered function of a kind of target in keys; empty if there is none."""
    return _of(kind).text if postproc.token(kind) else ""


def problem(kind: str) -> str:
    """Why the function over the generated code of a kind of target has no fingerprint; empty if it has one, or none is
    registered."""
    return _of(kind).problem if postproc.token(kind) else ""


def state() -> tuple[str, ...]:
    """The texts of all registered functions."""
    return tuple(map(token, postproc.kinds())) if postproc.tokens else ()


def _of(kind: str) -> _Described:
    known, registration = _described.get(kind), postproc.token(kind)
    if known is None or known.registration != registration or not known.watch.holds():
        known = _described[kind] = _describe(kind, registration)
    return known


def _describe(kind: str, registration: str) -> _Described:
    describer = Describer()
    text, found = registration, ""
    try:
        describer.value(postproc.function(kind), is_given=False)
        describer.finish()
        text = f"{registration} {describer.digest()}"
    except Unfaithful as error:
        found = f"the function over generated {kind} code: {error}"
    except Exception as error:  # the user's objects may do anything when they are looked at
        found = f"looking at the function over generated {kind} code raises {type(error).__name__}"
    return _Described(registration, text, found, Watch(describer.records))
