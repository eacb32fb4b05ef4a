"""The configurations of a search."""

from __future__ import annotations

import difflib
import inspect
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from tilelang.errors import TuningError
from tilelang.fingerprint import Describer, Unfaithful

if TYPE_CHECKING:
    from tilelang.jit.kernel import JITKernel

Configs = Union[Sequence[Mapping[str, Any]], Mapping[str, Sequence[Any]], Callable[..., Any]]


def expand(configs: Configs, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The list of configurations, without repetitions, in order.

    Args:
        configs: a list of dicts; a dict of lists (their product); or a function of the kernel's arguments that gives either.
        args, kwargs: the arguments for such a function.

    Returns:
        One dict of keyword arguments for each candidate.

    Raises:
        TuningError: none of these, or empty.
    """
    chosen: Any = configs(*args, **(kwargs or {})) if callable(configs) else configs
    if isinstance(chosen, Mapping):
        for name, values in chosen.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise TuningError(f"the values of {name} are {values!r}", hint=f"{name}=[...]: a list, of one value or several")
        names = list(chosen)
        chosen = [dict(zip(names, values)) for values in itertools.product(*(chosen[name] for name in names))]
    found: dict[str, dict[str, Any]] = {}
    for config in chosen:
        if not isinstance(config, Mapping):
            raise TuningError(f"a configuration must be a dict of keyword arguments, got {config!r}")
        found.setdefault(config_digest(config), dict(config))
    if not found:
        raise TuningError("there is no configuration to try")
    return list(found.values())


def config_digest(config: Mapping[str, Any]) -> str:
    """64 hexadecimal digits that identify a configuration by content.

    Raises:
        TuningError: a value that no fingerprint tells from all others, so that its results could be taken for another's.
    """
    describer = Describer(trusting=True)
    try:
        describer.value(tuple(sorted(config.items())))
    except Unfaithful as error:
        raise TuningError(f"a configuration cannot be identified: {error}", hint="use plain values") from None
    return describer.digest()


def config_text(config: Mapping[str, Any]) -> str:
    """A configuration as JSON, for the index and for messages."""
    return json.dumps(dict(config), default=str, sort_keys=True)


def check_arguments(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], configs: Iterable[Mapping[str, Any]]) -> None:
    """Refuses configurations that a factory cannot be called with: before the search, not once for each.

    Args:
        function: the ``@tilelang.jit`` function; an eager one also takes sizes by name, which it declares inside.
        args, kwargs: its arguments that no configuration gives.
        configs: the others.

    Raises:
        TuningError: an argument is unknown, missing or given twice.
    """
    if function.is_eager:
        return
    signature = inspect.signature(function.function)
    for config in configs:
        given = {**kwargs, **applied(function, config)[1]}
        try:
            signature.bind(*args, **given)
        except TypeError as error:
            near = [
                difflib.get_close_matches(name, signature.parameters, n=1) for name in given if name not in signature.parameters
            ]
            meant = "".join(f"; did you mean {names[0]!r}?" for names in near[:1] if names)
            raise TuningError(
                f"{function.function.__name__} cannot be called with the configuration {config_text(config)}: {error}{meant}",
                hint=f"it takes {', '.join(signature.parameters)}",
            ) from None


def configured(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], config: Mapping[str, Any]) -> JITKernel:
    """The kernel of one configuration.

    Args:
        function: the ``@tilelang.jit`` function.
        args, kwargs: its arguments that no configuration gives.
        config: the others. ``pass_configs``, where the function has no such parameter, go over those that it is compiled with.

    Returns:
        The compiled kernel.
    """
    function, given = applied(function, config)
    return function.compile(*args, **{**kwargs, **given})


def applied(function: Any, config: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The function under the pass configurations of a configuration, and what it takes as arguments."""
    given = dict(config)
    if "pass_configs" in given and "pass_configs" not in inspect.signature(function.function).parameters:
        function = function.with_pass_configs(given.pop("pass_configs"))
    return function, given
