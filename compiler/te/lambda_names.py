"""The parameters of a function of the user's: how many arguments it takes, and the names that they have there.

A parameter with a default is none of them, so that a function in a loop can hold on to what it is made of.
"""

from __future__ import annotations

import inspect

from vdla.compiler.te.expr import TeError

PLACES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def parameter_names(where: str, rule: str, function: object, count: int) -> list[str]:
    """The names of the arguments; `*names` is as many as there are missing to `count`, named i0, i1, ... by place.

    `rule` says what `function` must be, for the error that it is not.
    """
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TeError(f"{where}: {rule}, got {function!r}") from None
    needed = [p for p in parameters if p.default is p.empty]
    for parameter in needed:
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise TeError(f"{where}: {rule}, got one that needs the keyword {parameter.name}")
    names = [p.name for p in needed if p.kind in PLACES]
    if any(p.kind is p.VAR_POSITIONAL for p in needed):
        names += [f"i{place}" for place in range(len(names), count)]
    return names
