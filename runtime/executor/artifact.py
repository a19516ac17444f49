# SPDX-License-Identifier: Apache-2.0
"""A compiled network in one file: plan, constants, machine code, accelerator programs.

Loading verifies the checksum over every byte, then every rule of the plan and, through the
verifier, every program. Machine code is trusted: load artifacts as you would load a shared library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.abi import Signature
from vdla.hardware.config import Config
from vdla.hardware.program import NeedsExtensionError, Program, ProgramError
from vdla.runtime.executor.artifact_certificate import ArtifactCertificate
from vdla.runtime.executor.check_plan import check_plan
from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.executor.grid_code import GridCode, GridPart
from vdla.runtime.executor.json_fields import from_json, to_json
from vdla.runtime.executor.plan import STORED_IN_BYTES, Plan, PlannedValue, numpy_dtype, size_bytes
from vdla.runtime.executor.recipe import Recipe
from vdla.simulator.verify import VerifyError, accept_verified, require_verified
from vdla.support.sealed_file import FileFormat, Payload
from vdla.support.trusted_hash import require_digits, require_trusted


def check_variants(plans: Sequence[Plan]) -> None:
    """ArtifactError unless all plans have one signature, for inputs of different shapes."""
    first, seen = plans[0], set[str]()
    for plan in plans:
        where = f"plan {plan.name}"
        for what in ("inputs", "outputs"):
            names, wanted = getattr(plan, what), getattr(first, what)
            if names != wanted:
                raise ArtifactError(
                    f"{where}: {what} of all variants must be {', '.join(wanted)}, got {', '.join(names)}"
                )
        for name in plan.inputs:
            dtype, wanted = plan.values[name].dtype, first.values[name].dtype
            if dtype != wanted:
                raise ArtifactError(f"{where}: {name} must be {wanted} in all variants, got {dtype}")
        shapes = plan.input_shapes
        if shapes in seen:
            raise ArtifactError(f"{where}: variants must differ in the shapes of inputs, got {shapes} twice")
        seen.add(shapes)


Array = npt.NDArray[Any]
ARTIFACT_FILE = FileFormat(
    magic=b"VDLAMODL",
    version=3,
    noun="compiled network",
    made_by="vdla compile MODEL.onnx -o MODEL.vdla",
    error=ArtifactError,
)
_STRINGS = "str"
_ALIGNMENT = 64  # of the constants in memory


@dataclass(frozen=True, slots=True)
class Cpu:
    """The CPU that kernels were compiled for, in LLVM's terms."""

    name: str
    triple: str
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCode:
    """An object file with the C entry of one kernel."""

    signature: Signature
    object: bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class Artifact:
    """A compiled network; `origin` has source and licence of the model and the versions used.

    `variants` are further plans, for inputs of other shapes; `grid` is the part on a GPU, if any;
    with a `recipe`, the last plan is for inputs of any shape, and slow. `expressions` say what the
    programs must compute, where they are kept, for `vdla.certify`; the `certificate` says that they
    do, where it was made. `tokens` is the tokenizer's file of a decoder, where it is kept.
    """

    plan: Plan
    variants: tuple[Plan, ...] = ()
    constants: Mapping[str, Array]
    kernels: tuple[KernelCode, ...] = ()
    programs: tuple[Program, ...] = ()
    grid: GridPart | None = None
    recipe: Recipe | None = None
    expressions: bytes = field(default=b"", repr=False)
    tokens: bytes = field(default=b"", repr=False)
    certificate: ArtifactCertificate | None = None
    cpu: Cpu
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan and its variants."""
        return (self.plan, *self.variants)

    @property
    def config(self) -> Config | None:
        """The machine of the programs, or None."""
        if self.programs:
            return self.programs[0].config
        machine = None if self.recipe is None else self.recipe.machine
        return None if machine is None else Config.from_dict(machine)

    def check(self, *, verified: bool = False) -> Artifact:
        """The artifact, if every rule holds; programs are taken for `verified`, or verified.

        Raises:
            ArtifactError: the plan breaks a rule.
            VerifyError: a program is unsafe.
        """
        described = {n: PlannedValue(_dtype_name(v), tuple(map(int, v.shape))) for n, v in self.constants.items()}
        functions = () if self.grid is None else self.grid.kernels
        for index, function in enumerate(functions):
            function.check(f"plan {self.plan.name}, GPU function {index}")
        kernels, on_grid = ([item.signature for item in group] for group in (self.kernels, functions))
        for plan in self.plans:
            check_plan(plan, described, kernels, self.programs, on_grid)
        check_variants(self.plans)
        if self.recipe is not None:
            self.recipe.require_inputs(f"plan {self.plan.name}", self.plan.inputs)
        if self.certificate is not None:
            self.certificate.require_programs(f"plan {self.plan.name}", self.programs)
        for program in self.programs:
            mismatch = program.config.mismatch(self.programs[0].config)
            if mismatch is not None:
                raise ArtifactError(f"plan {self.plan.name}: programs must be of one machine, got {mismatch}")
            (accept_verified if verified else require_verified)(program)
        return self

    # --- files

    def to_bytes(self) -> bytes:
        """The content of the file."""
        kernels = [kernel.object for kernel in self.kernels]
        programs = [program.to_bytes() for program in self.programs]
        manifest = {
            "plan": to_json(self.plan),
            "variants": [to_json(plan) for plan in self.variants],
            "cpu": to_json(self.cpu),
            "origin": dict(self.origin),
            "constants": [_described(name, value) for name, value in self.constants.items()],
            "kernels": [
                [kernel.signature.to_json(), len(code)] for kernel, code in zip(self.kernels, kernels, strict=True)
            ],
            "programs": [len(content) for content in programs],
        }
        models = []
        if self.recipe is not None:
            models = [self.recipe.model]
            manifest["recipe"] = [self.recipe.to_json(), len(self.recipe.model)]
        if self.expressions:
            manifest["expressions"] = len(self.expressions)
        if self.tokens:
            manifest["tokens"] = len(self.tokens)
        if self.certificate is not None:
            manifest["certificate"] = self.certificate.to_json()
        if self.grid is not None:
            manifest["grid"] = [self.grid.device, [code.to_json() for code in self.grid.kernels]]
        numbers = (value for value in self.constants.values() if value.dtype != object)
        arrays = [np.ascontiguousarray(value).tobytes() for value in numbers]
        text = json.dumps(manifest, indent=1, allow_nan=False).encode()
        return ARTIFACT_FILE.seal(text, [*arrays, *kernels, *programs, *models, self.expressions, self.tokens])

    @staticmethod
    def from_bytes(content: bytes, where: str, trust: str | None = None, *, verified: bool = False) -> Artifact:
        """The artifact in the content of a file; `where` names the file in errors.

        `trust` is the SHA-256 of a file, or of the certificate in it, whose programs are not
        verified again, nor are those that are `verified` already.

        Raises:
            ArtifactError: the file is damaged, of a newer version, or breaks a rule.
            VerifyError: a program is unsafe.
        """
        return _checked(_parsed(content, where, trust), where, verified=verified or trust is not None)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the artifact to a file, whole or not at all."""
        ARTIFACT_FILE.write(path, self.to_bytes())

    @staticmethod
    def load(path: str | PathLike[str], trust: str | None = None) -> Artifact:
        """The artifact in a file that `save` wrote; see `from_bytes` for `trust`."""
        artifact = _parsed(ARTIFACT_FILE.read(path), str(path), trust)  # frees the content before the checks
        return _checked(artifact, str(path), verified=trust is not None)


def _parsed(content: bytes, where: str, trust: str | None) -> Artifact:
    """The artifact in the content of a file, not checked yet."""
    if trust is not None:
        require_digits(trust, where, ArtifactError)
    manifest, payload = ARTIFACT_FILE.unseal(content, where)
    with _place_of_errors(where):
        artifact = _build(json.loads(manifest), payload)
    if trust is not None:
        _require_trusted(content, artifact.certificate, trust, where)
    return artifact


def _require_trusted(content: bytes, certificate: ArtifactCertificate | None, trust: str, where: str) -> None:
    """ArtifactError unless the SHA-256 is that of a file or of the certificate in it."""
    if certificate is None:
        require_trusted(content, trust, where, ArtifactError)
    elif trust.lower() not in (certificate.hash, digest := hashlib.sha256(content).hexdigest()):
        got = f"{digest[:12]} and {certificate.hash[:12]}"
        rule = f"SHA-256 of the file or of its certificate must be the trusted {trust.lower()[:12]}"
        raise ArtifactError(f"{where}: {rule}, got {got}")


def _checked(artifact: Artifact, where: str, *, verified: bool) -> Artifact:
    with _place_of_errors(where):
        return artifact.check(verified=verified)


@contextmanager
def _place_of_errors(where: str) -> Iterator[None]:
    """Errors about the content of a file, with the name of the file."""
    try:
        yield
    except NeedsExtensionError as error:
        raise ArtifactError(f"{where}: {error.text}") from None
    except (ArtifactError, ProgramError) as error:
        raise ArtifactError(f"{where}: content must be a valid model, got {error}") from None
    except VerifyError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        got = f"{type(error).__name__}: {error}"
        raise ArtifactError(f"{where}: manifest must describe a model, got {got}") from None


def _dtype_name(value: Array) -> str:
    return _STRINGS if value.dtype == object else value.dtype.name


def _described(name: str, value: Array) -> list[Any]:
    """A constant in the manifest: name, element type and extents; of strings, the elements too."""
    texts = [[str(text) for text in value.reshape(-1)]] if value.dtype == object else []
    return [name, _dtype_name(value), list(value.shape), *texts]


def _build(manifest: dict[str, Any], payload: Payload) -> Artifact:
    constants = dict(_constants(manifest["constants"], payload))
    kernels = tuple(
        KernelCode(Signature.from_json(text), bytes(payload.take("kernel", nbytes)))
        for text, nbytes in manifest["kernels"]
    )
    programs = tuple(
        Program.from_bytes(bytes(payload.take("program", nbytes)), f"program {index}")
        for index, nbytes in enumerate(manifest["programs"])
    )
    recipe = _recipe(manifest["recipe"], payload) if "recipe" in manifest else None
    kept = bytes(payload.take("expressions", manifest.get("expressions", 0)))
    tokens = bytes(payload.take("tokens", manifest.get("tokens", 0)))
    payload.finish()
    return Artifact(
        plan=from_json(Plan, manifest["plan"], "plan"),
        variants=from_json(tuple[Plan, ...], manifest.get("variants", []), "variants"),
        constants=constants,
        kernels=kernels,
        programs=programs,
        grid=_grid(manifest["grid"]) if "grid" in manifest else None,
        recipe=recipe,
        expressions=kept,
        tokens=tokens,
        certificate=ArtifactCertificate.from_json(manifest["certificate"]) if "certificate" in manifest else None,
        cpu=from_json(Cpu, manifest["cpu"], "cpu"),
        origin=from_json(dict[str, str], manifest["origin"], "origin"),
    )


def _recipe(raw: list[Any], payload: Payload) -> Recipe:
    described, nbytes = raw
    return replace(from_json(Recipe, described, "recipe"), model=bytes(payload.take("model", nbytes)))


def _grid(raw: list[Any]) -> GridPart:
    device, codes = raw
    kernels = tuple(GridCode.from_json(code, f"GPU function {index}") for index, code in enumerate(codes))
    return GridPart(from_json(str, device, "grid"), kernels)


def _constants(described: list[Any], payload: Payload) -> Iterator[tuple[str, Array]]:
    for name, dtype, shape, *texts in described:
        if not all(type(extent) is int and extent >= 0 for extent in shape):
            raise ArtifactError(f"constant {name}: extents must be integers from 0, got {shape}")
        if dtype == _STRINGS:
            yield name, _strings(name, shape, *texts or [[]])
            continue
        content = payload.take(f"constant {name}", size_bytes(dtype, tuple(shape)))
        aligned = aligned_bytes(len(content))
        aligned[:] = np.frombuffer(content, np.uint8)
        array = aligned.view(numpy_dtype(dtype)).reshape(shape)
        array.flags.writeable = False
        yield name, array


def _strings(name: str, shape: list[int], texts: list[Any]) -> Array:
    """A constant of strings, whose elements are in the manifest."""
    if len(texts) != prod(shape) or not all(isinstance(text, str) for text in texts):
        raise ArtifactError(f"constant {name}: elements must be {prod(shape)} strings, got {texts}")
    array = np.array(texts, object).reshape(shape)
    array.flags.writeable = False
    return array


def stored_array(value: Array) -> Array:
    """The array as it comes back from a file: row-major, in the byte order of this machine, with
    integers of less than a byte in a byte each, their sign included.
    """
    if value.dtype.name in STORED_IN_BYTES:
        return np.asarray(value.astype(numpy_dtype(value.dtype.name)), order="C")
    return np.asarray(value, value.dtype.newbyteorder("="), order="C")


def aligned_bytes(nbytes: int) -> npt.NDArray[np.uint8]:
    """Memory that begins at a multiple of 64 bytes."""
    memory = np.empty(nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + nbytes]
