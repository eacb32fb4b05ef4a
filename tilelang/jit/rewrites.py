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
        text: stands for it in keys.
        problem: why nothing does; empty where ``text`` does.
        watch: holds while both are right.
    """

    registration: str
    text: str
    problem: str
    watch: Watch


_described: dict[str, _Described] = {}


def token(kind: str) -> str:
    """The text of the registration in force for a kind of target, empty without one."""
    return _of(kind).text if postproc.token(kind) else ""


def problem(kind: str) -> str:
    """Why nothing stands for the function over the generated code of a kind of target; empty where there is none, or something
    does."""
    return _of(kind).problem if postproc.token(kind) else ""


def state() -> tuple[str, ...]:
    """The texts of all registrations in force."""
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
        describer.value(postproc.function(kind))
        describer.finish()
        text = f"{registration} {describer.digest()}"
    except Unfaithful as error:
        found = f"the function over generated {kind} code: {error}"
    except Exception as error:  # the user's objects may do anything when they are looked at
        found = f"looking at the function over generated {kind} code raises {type(error).__name__}"
    return _Described(registration, text, found, Watch(describer.records))
