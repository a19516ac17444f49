"""The extensions that this process has loaded, and the plug-ins of a configuration.

Files and other processes refer to a plug-in by name and digest, never by its code: a program from
elsewhere runs only with extensions that its user has loaded. `register` is therefore the one piece
of state in this package, and is called by the loader alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from vdla.hardware.checks import ConfigError
from vdla.hardware.isa.formats import plug_in_misfit
from vdla.hardware.isa.plug_in import DECLARED_SIZES, MOST_PLUG_INS, PlugIn
from vdla.support.errors import Error

Declare = Callable[[Any], PlugIn]  # of a plain configuration, which lies above this module

_LOADED: dict[Hashable, Declare] = {}


def register(source: Hashable, declare: Declare) -> None:
    """Make an extension known by its source; `declare` makes its plug-in for a plain machine."""
    _LOADED.pop(source, None)
    _LOADED[source] = declare


def loaded() -> tuple[Declare, ...]:
    """What makes the plug-ins of the extensions that are loaded, the last one first."""
    return tuple(reversed(_LOADED.values()))


def find_plug_in(label: str, config: Any) -> PlugIn:  # noqa: ANN401  a plain configuration
    """The plug-in of a label, `name` or `name#digest`, for a plain configuration; of several
    extensions of one name that which was loaded last.

    ConfigError where its extension is not loaded, or is another version of it.
    """
    name, _, digest = label.partition("#")
    problems, others = [], []
    for declare in loaded():
        try:
            plug_in = declare(config)
        except Error as error:  # perhaps of another extension, which this machine cannot have
            problems.append(str(error))
            continue
        if plug_in.name != name:
            others.append(plug_in.name)
        elif digest in ("", plug_in.digest):
            return plug_in
        else:
            got = f"{plug_in.digest} from {plug_in.place}"
            problems.append(f"extension {name} must have digest {digest}, got {got}")
    found = [*([f"loaded: {', '.join(others)}"] if others else []), *problems] or ["none is loaded"]
    rule = f"extension {label} must be loaded, with vdla.load_extension or --extension FILE"
    raise ConfigError(f"config: {rule}; {'; '.join(found)}")


def require_plug_ins(where: str, config: Any) -> None:  # noqa: ANN401  a configuration that is being made
    """ConfigError unless the plug-ins of a configuration fit it and each other."""
    plug_ins = config.extensions
    if not isinstance(plug_ins, tuple) or not all(isinstance(each, PlugIn) for each in plug_ins):
        raise ConfigError(
            f"{where}: extensions must be a tuple of plug-ins as vdla.extend makes them, got {plug_ins!r}"
        )
    if len(plug_ins) > MOST_PLUG_INS:
        raise ConfigError(f"{where}: extensions must be at most {MOST_PLUG_INS}, got {len(plug_ins)}")
    names = [each.name for each in plug_ins]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{where}: names of extensions must differ, got {name} twice")
    for each in plug_ins:
        sizes = {name: getattr(config, name) for name in DECLARED_SIZES}
        for name, declared in each.sizes:
            if declared != sizes[name]:
                rule = f"extension {each.name} must be declared for {name}={sizes[name]}"
                raise ConfigError(f"{where}: {rule}, got {declared}; extend the final configuration")


def require_formats(where: str, config: Any) -> None:  # noqa: ANN401  as above
    """ConfigError unless the instructions of all plug-ins fit their words."""
    problem = plug_in_misfit(config)
    if problem is not None:
        plug_in, text = problem
        raise ConfigError(f"{where}: extension {plug_in.name}: {text}")
