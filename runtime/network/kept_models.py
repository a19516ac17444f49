# SPDX-License-Identifier: Apache-2.0
"""Compiled models of earlier calls, in the user's cache by a hash of all that they depend on.

That is the content of the model, the target and the CPU, the options, the toolkit's sources and the
versions of its libraries. What depends on more is compiled each time: see `_key`. A damaged entry
is compiled again. This module imports no compiler, which takes longer than to load a model.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.compiler.target import Target
from vdla.hardware.config import Config
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.errors import ArtifactError, ModelError
from vdla.runtime.executor.model import Model
from vdla.runtime.network.certificate_choice import certifies
from vdla.runtime.network.targets import GRID_TARGETS, target_of
from vdla.support.cache import CacheError, trim, user_cache
from vdla.support.toolkit_digest import toolkit_digest

if TYPE_CHECKING:
    from vdla.runtime.network.import_network import ModelSource

KEYED = ("certify", "cpu", "extents", "shapes", "place", "progress")
"""Options with which models are kept."""
MOST_BYTES = 2 << 30
"""The size of the cache, above which the models that were used longest ago are removed."""
_OFF = "VDLA_MODEL_CACHE"
_SHOWN: dict[Any, Any] = {}  # warnings, as Python's own registry of a module
_LOCATION = b"location"  # in each model whose constants are in other files
_ZIP = b"PK"  # a program of PyTorch


def kept_or_compiled(source: ModelSource, target: Config | Target | str, **options: Any) -> Model:  # noqa: ANN401
    """The model of `compile_network` with these arguments: compiled, unless it is kept.

    A model is kept if nothing warned of it. With 0 in the environment variable VDLA_MODEL_CACHE,
    none is kept or looked for.
    """
    options = {name: value for name, value in options.items() if value is not None}
    key = None if os.environ.get(_OFF) == "0" else _key(source, target, options)
    if key is None:
        return _compiled(source, target, options)
    artifact = _read(key)
    if artifact is not None:
        return Model(artifact, expressions=partial(_expressions, key, source, target, options))
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")  # also what is ignored here: another process may show it
        model = _compiled(source, target, options)
    for warning in raised:
        place = warning.filename, warning.lineno
        warnings.warn_explicit(warning.message, warning.category, *place, registry=_SHOWN)
    if not raised:
        _write(key, model.artifact)
    return model


def _compiled(source: ModelSource, target: Config | Target | str, options: Mapping[str, Any]) -> Model:
    from vdla.runtime.network.compile_network import compile_network

    return compile_network(source, target, **options)


def _expressions(key: str, source: ModelSource, target: Config | Target | str, options: Mapping[str, Any]) -> bytes:
    """What the programs of a kept model must compute, which a compilation says.

    ModelError: its file is another one now.
    """
    if _key(source, target, options) != key:
        rule = "the file must be the one that was compiled, to say what its programs must compute"
        raise ModelError(
            f"{'model' if isinstance(source, bytes) else source}: {rule}, got another one; compile it again"
        )
    return _compiled(source, target, options).expressions


# --- what a model depends on ----------------------------------------------------------------------


def _key(source: ModelSource, target: Config | Target | str, options: Mapping[str, Any]) -> str | None:
    """A hash of all that a compilation depends on; None if that is more than can be told.

    That is so with constants in other files, a GPU, extensions, data of calibration, an observer or
    tuned schedules; and for what is no model, whose errors the compiler raises.
    """
    if not set(options) <= set(KEYED) or (isinstance(target, str) and target.split(":")[0] in GRID_TARGETS):
        return None
    machine = target_of(target, ModelError)
    content = _content(source)
    if content is None or (isinstance(machine, Config) and machine.plain != machine):
        return None
    name = Path(source).name if isinstance(source, str | Path) else ""
    given = {key: value for key, value in options.items() if key not in ("cpu", "progress")}
    given["certify"] = certifies(options.get("certify"))
    targets = [_described(item) for item in (machine, options.get("cpu"), Target.named("host"))]
    try:
        libraries = [version(library) for library in ("llvmlite", "numpy", "onnx")]
        text = json.dumps([toolkit_digest(), sys.version, libraries, name, targets, given], sort_keys=True)
    except (TypeError, PackageNotFoundError):  # options that the compiler refuses, numbers of NumPy
        return None
    return hashlib.sha256(text.encode() + b"\0" + content).hexdigest()


def _content(source: ModelSource) -> bytes | None:
    """The bytes of a model that is complete in them."""
    if isinstance(source, str | Path):
        try:
            content = Path(source).read_bytes()
        except (OSError, ValueError):
            return None
    elif isinstance(source, bytes):
        content = source
    else:
        return None
    return None if _LOCATION in content or content.startswith(_ZIP) else content


def _described(target: Config | Target | str | None) -> Any:  # noqa: ANN401  JSON
    match target:
        case Config():
            return target.to_dict()
        case Target():
            fields = asdict(target)
            return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in fields.items()}
    return target


# --- files ----------------------------------------------------------------------------------------


def _path(key: str) -> Path:
    return user_cache("models") / f"{key}.vdla"


def _read(key: str) -> Artifact | None:
    """A kept artifact, whose programs were verified when it was made; None if it is missing or
    damaged.
    """
    try:
        path = _path(key)
        artifact = Artifact.from_bytes(path.read_bytes(), str(path), verified=True)
        os.utime(path)  # used now
    except (OSError, CacheError, ArtifactError):
        return None
    return artifact


def _write(key: str, artifact: Artifact) -> None:
    """Keep an artifact; best effort."""
    try:
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        artifact.save(path)
        trim(path.parent, MOST_BYTES)
    except (OSError, CacheError, ArtifactError):
        return
