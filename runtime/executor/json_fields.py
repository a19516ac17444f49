# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses as JSON and back, by their annotations.

Decoding is strict: every field must be present with its type, and no others. Only a field with a
default factory may be absent, as in files of versions before it.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from vdla.runtime.executor.errors import ArtifactError

T = TypeVar("T")
_KIND = "kind"  # names the class where several are possible
_ARRAY = "array"


def to_json(value: Any) -> Any:  # noqa: ANN401  JSON
    """A dataclass as JSON; arrays within are written in hexadecimal."""
    if is_dataclass(value) and not isinstance(value, type):
        return {_KIND: type(value).__name__} | {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    match value:
        case np.ndarray():
            little = value.astype(value.dtype.newbyteorder("<"))
            return {_ARRAY: [value.dtype.name, list(value.shape), little.tobytes().hex()]}
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
        case tuple() | list():
            return [to_json(item) for item in value]
        case np.generic():
            return value.item()
        case _:
            return value


def from_json(kind: type[T], raw: object, where: str) -> T:
    """The value of a type that `to_json` wrote.

    Raises:
        ArtifactError: anything else; the message names the field.
    """
    return typing.cast("T", _decode(kind, raw, where))


def _decode(kind: Any, raw: Any, where: str) -> Any:  # noqa: ANN401  an annotation, JSON
    if kind is Any:
        return _decode_any(raw, where)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), raw, where)
    if origin is tuple:
        _require(isinstance(raw, list), where, "a list", raw)
        item = typing.get_args(kind)[0]
        return tuple(_decode(item, hint, f"{where}[{i}]") for i, hint in enumerate(raw))
    if origin is not None and issubclass(origin, Mapping):
        _require(isinstance(raw, dict), where, "an object", raw)
        item = typing.get_args(kind)[1]
        return {key: _decode(item, hint, f"{where}.{key}") for key, hint in raw.items()}
    if is_dataclass(kind):
        return _decode_dataclass(kind, raw, where)
    if kind is float and isinstance(raw, int) and not isinstance(raw, bool):
        return float(raw)
    _require(type(raw) is kind, where, kind.__name__, raw)
    return raw


def _decode_union(choices: tuple[Any, ...], raw: Any, where: str) -> Any:  # noqa: ANN401
    if raw is None and type(None) in choices:
        return None
    rest = [choice for choice in choices if choice is not type(None)]
    if len(rest) == 1:
        return _decode(rest[0], raw, where)
    named = {choice.__name__: choice for choice in rest}
    name = raw.get(_KIND) if isinstance(raw, dict) else None
    entry = named.get(name) if isinstance(name, str) else None  # a list has no hash
    if entry is None:
        raise ArtifactError(f"{where}: kind must be one of {', '.join(named)}, got {_short(raw)}")
    return _decode(entry, raw, where)


def _decode_dataclass(kind: Any, raw: Any, where: str) -> Any:  # noqa: ANN401
    _require(isinstance(raw, dict), where, "an object", raw)
    hints = _hints(kind)
    required = {field.name for field in fields(kind) if field.default_factory is MISSING}
    if not {_KIND, *required} <= raw.keys() <= {_KIND, *hints}:
        raise ArtifactError(f"{where}: fields must be {', '.join(hints)}, got {', '.join(raw.keys() - {_KIND})}")
    known = {name: hint for name, hint in hints.items() if name in raw}
    return kind(**{name: _decode(hint, raw[name], f"{where}.{name}") for name, hint in known.items()})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode_any(raw: Any, where: str) -> Any:  # noqa: ANN401
    """Attributes: numbers, texts, lists as tuples, arrays."""
    if isinstance(raw, list):
        return tuple(_decode_any(item, where) for item in raw)
    if isinstance(raw, dict) and raw.keys() == {_ARRAY}:
        return _decode_array(raw[_ARRAY], where)
    if isinstance(raw, dict):
        return {key: _decode_any(item, where) for key, item in raw.items()}
    return raw


def _decode_array(raw: Any, where: str) -> Any:  # noqa: ANN401
    from vdla.runtime.executor.plan import numpy_dtype

    try:
        name, shape, text = raw
        return np.frombuffer(bytes.fromhex(text), numpy_dtype(name)).reshape(shape)
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"{where}: array must be a dtype, a shape and its bytes, got {error}") from None


def _require(holds: bool, where: str, rule: str, raw: object) -> None:
    if not holds:
        raise ArtifactError(f"{where}: value must be {rule}, got {_short(raw)}")


def _short(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= 60 else f"{text[:57]}..."
