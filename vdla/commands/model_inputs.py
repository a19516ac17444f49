# SPDX-License-Identifier: Apache-2.0
"""The inputs of a compiled network from files, images or a seed; batches of several runs.

Arrays are plain, in the shapes of the model. An input with N times as many rows in its first
dimension as the model's is N runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.commands import CommandError
from vdla.commands.arrays import read_array
from vdla.commands.options import add_options, given
from vdla.support.arrays import cast_hint
from vdla.support.suggest import one_of
from vdla.support.symbolic_shapes import shape_words

if TYPE_CHECKING:
    from vdla.runtime.executor.plan import Plan, PlannedValue

Array = NDArray[Any]
Inputs = dict[str, Array]
_PIXELS = ("mean", "std", "scale")  # options of images
_SCALE = 1 / 255  # of 8-bit pixels to numbers from 0 to 1


def add_input_arguments(parser: argparse.ArgumentParser, words: str = "NAME=FILE") -> None:
    """--input, --random-inputs and the options of images."""
    parser.add_argument(
        "--input", nargs="+", default=[], metavar=words, help=".npy files by input, a single one, or an .npz file"
    )
    add_options(parser, {"--random-inputs SEED": "random data for inputs without a file"})
    add_image_arguments(parser)


def add_image_arguments(parser: argparse.ArgumentParser) -> None:
    """--image and what happens to its pixels."""
    add_options(parser, {"--image FILE...": "images as the input of a model"})
    parser.add_argument(
        "--mean", type=float, nargs="+", metavar="X", help="mean of the channels, subtracted (default 0)"
    )
    parser.add_argument("--std", type=float, nargs="+", metavar="X", help="divisor of the channels (default 1)")
    parser.add_argument("--scale", type=float, metavar="X", help="factor of pixels before mean and std (1/255)")


@dataclass(frozen=True, slots=True)
class ModelRuns:
    """The inputs of each run, by name."""

    runs: tuple[Mapping[str, Array], ...]

    def __len__(self) -> int:
        return len(self.runs)


def read_model_inputs(plans: Sequence[Plan], arguments: argparse.Namespace, command: str) -> ModelRuns:
    """The inputs that the options name, checked against the plan of their shapes, or the first."""
    plan = plans[0]
    where = f"{command}: model {plan.name}"
    arrays = _given(plan, arguments, where)
    rules = (_fits, _has_rows, _is_open)
    plan = next((item for rule in rules for item in plans if rule(item, arrays)), plan)
    for name in arrays:
        if name not in plan.inputs:
            raise CommandError(f"{where}: input must be {one_of(name, plan.inputs)}")
    if arguments.random_inputs is not None:
        missing = (name for name in plan.inputs if name not in arrays)
        arrays |= {name: random_input(where, name, plan.values[name], arguments.random_inputs) for name in missing}
    _require_all(where, plan, arrays)
    return split(where, plan, arrays)


def model_inputs(plans: Sequence[Plan], files: Sequence[str], seed: int, command: str) -> ModelRuns:
    """The inputs in files, as --input names them, and random data for the others."""
    words = argparse.Namespace(input=list(files), random_inputs=seed, image=[], mean=None, std=None, scale=None)
    return read_model_inputs(plans, words, command)


def _fits(plan: Plan, arrays: Mapping[str, Array]) -> bool:
    return all(name in plan.inputs and plan.values[name].shape == array.shape for name, array in arrays.items())


def _has_rows(plan: Plan, arrays: Mapping[str, Array]) -> bool:
    """Whether the arrays are inputs of several runs of a plan."""
    shapes = {name: plan.values[name].shape for name in arrays if name in plan.inputs}
    rows = [(shape, arrays[name].shape) for name, shape in shapes.items()]
    return len(rows) == len(arrays) and all(
        shape and given and shape[1:] == given[1:] and shape[0] and not given[0] % shape[0] for shape, given in rows
    )


def _is_open(plan: Plan, arrays: Mapping[str, Array]) -> bool:
    """Whether a plan takes inputs of any shape."""
    return any(plan.values[name].shape is None for name in plan.inputs)


def _given(plan: Plan, arguments: argparse.Namespace, where: str) -> Inputs:
    arrays = _files(plan, arguments.input, where)
    if not arguments.image:
        for option, _ in given(arguments, _PIXELS):
            raise CommandError(f"{where}: --image must be given with {option}, got none")
        return arrays
    images = [name for name in plan.inputs if len(plan.values[name].shape or ()) == 4 and name not in arrays]
    if len(images) != 1:
        raise CommandError(f"{where}: one input must be images [N, C, H, W] for --image, got {_names(images)}")
    name = images[0]
    return arrays | {name: _images(where, plan.values[name], arguments)}


def _files(plan: Plan, settings: Sequence[str], where: str) -> Inputs:
    """The arrays of FILE.npy, FILE.npz and NAME=FILE.npy words."""
    arrays: Inputs = {}
    for setting in settings:
        name, sign, file = setting.partition("=")
        for key, array in ({name: read_array(Path(file))} if sign else _unnamed(plan, setting, where)).items():
            if key in arrays:
                raise CommandError(f"{where}: {key} must be given once, got it twice")
            arrays[key] = array
    return arrays


def _unnamed(plan: Plan, file: str, where: str) -> Inputs:
    if file.endswith(".npz"):
        return _archive(Path(file))
    if len(plan.inputs) != 1:
        raise CommandError(f"{where}: --input must name one of {_names(plan.inputs)}, got {file}")
    return {plan.inputs[0]: read_array(Path(file))}


def _archive(path: Path) -> Inputs:
    try:
        with np.load(path, allow_pickle=False) as loaded:
            if isinstance(loaded, np.ndarray):
                raise ValueError("a single array")
            return {name: np.asarray(loaded[name]) for name in loaded.files}
    except (ValueError, EOFError) as error:
        raise CommandError(f"{path}: content must be arrays in .npz format, got {error}") from None


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _require_all(where: str, plan: Plan, arrays: Mapping[str, Array]) -> None:
    missing = [name for name in plan.inputs if name not in arrays]
    if missing:
        wanted = ", ".join(f"{name} ({described(plan.values[name])})" for name in missing)
        raise CommandError(f"{where}: every input must have an array, got none for {wanted}; give --input or "
                           "--random-inputs SEED")  # fmt: skip


def described(value: PlannedValue) -> str:
    """Type and shape of a value as text."""
    return f"{value.dtype} {list(value.shape) if value.shape is not None else 'of any shape'}"


def random_input(where: str, name: str, value: PlannedValue, seed: int) -> Array:
    """Random elements: floats from 0 to 1, integers of 8 bits over their range, others 0 or 1."""
    from vdla.runtime.executor.plan import numpy_dtype

    if value.shape is None:
        raise CommandError(f"{where}: {name} must have a known shape for random data, got any shape; give --input")
    rng, dtype = np.random.default_rng([seed, *name.encode()]), numpy_dtype(value.dtype)
    if dtype.kind == "f":
        return rng.random(value.shape).astype(dtype)
    if value.dtype in ("int8", "uint8"):
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, value.shape, dtype)
    return rng.integers(0, 2, value.shape).astype(dtype)


# --- images ---------------------------------------------------------------------------------------


def _images(where: str, value: PlannedValue, arguments: argparse.Namespace) -> Array:
    """The images as [N, C, H, W]: resized, scaled, less the mean, over the standard deviation."""
    assert value.shape is not None
    _, channels, height, width = value.shape
    if channels not in (1, 3):
        raise CommandError(f"{where}: channels must be 1 (grey) or 3 (RGB) for --image, got {channels}")
    pixels = np.stack([_pixels(path, channels, height, width) for path in arguments.image])
    if value.dtype in ("uint8", "int64", "int32"):
        for option, _ in given(arguments, _PIXELS):
            raise CommandError(f"{where}: {option} must be left out for pixels of {value.dtype}, got one")
        return pixels.astype(value.dtype)
    if value.dtype != "float32":
        raise CommandError(f"{where}: elements must be float32 or uint8 for --image, got {value.dtype}")
    scale = _SCALE if arguments.scale is None else arguments.scale
    mean = _of_channels(where, "--mean", arguments.mean, channels, 0.0)
    std = _of_channels(where, "--std", arguments.std, channels, 1.0)
    if not np.all(std):
        raise CommandError(f"{where}: --std must differ from 0, got 0")
    return ((pixels * np.float32(scale) - mean) / std).astype(np.float32)


def _of_channels(where: str, option: str, values: Sequence[float] | None, channels: int, default: float) -> Array:
    """A number for each channel; one is for all."""
    given = [default] if values is None else list(values)
    if len(given) not in (1, channels):
        raise CommandError(f"{where}: {option} must have 1 or {channels} numbers, got {len(given)}")
    return np.array(given, np.float32).reshape(-1, 1, 1)


def _pixels(path: Path, channels: int, height: int, width: int) -> Array:
    """The pixels of an image, 0 to 255, as [C, H, W]."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise CommandError('--image: Pillow must be installed, got none (pip install "vdla[images]")') from None
    try:
        with Image.open(path) as image:
            resized = image.convert("L" if channels == 1 else "RGB").resize((width, height), Image.Resampling.BILINEAR)
    except (UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise CommandError(f"{path}: file must be an image, got {error}") from None
    pixels = np.asarray(resized, np.float32)
    return pixels.reshape(height, width, channels).transpose(2, 0, 1)


# --- batches --------------------------------------------------------------------------------------


def split(where: str, plan: Plan, arrays: Mapping[str, Array]) -> ModelRuns:
    """The inputs of each run: arrays may have N times the rows of the model's inputs."""
    counts = {name: _times(where, name, plan.values[name], arrays[name]) for name in plan.inputs}
    runs = max(counts.values(), default=1)
    for name, count in counts.items():
        if count != runs:
            most = next(other for other, number in counts.items() if number == runs)
            raise CommandError(f"{where}: {name} must have data for {runs} runs, as {most} has, got {count}")
    return ModelRuns(tuple({name: _part(arrays[name], runs, k) for name in plan.inputs} for k in range(runs)))


def _part(array: Array, runs: int, number: int) -> Array:
    if runs == 1:
        return array
    rows = len(array) // runs
    return array[number * rows : (number + 1) * rows]


def _times(where: str, name: str, value: PlannedValue, array: Array) -> int:
    """How many runs an array is for."""
    from vdla.runtime.executor.plan import numpy_dtype

    fits = array.dtype == numpy_dtype(value.dtype)
    if fits and (value.shape is None or array.shape == value.shape):
        return 1
    shape = value.shape or ()
    if fits and shape and array.shape[1:] == shape[1:] and shape[0] and len(array) and not len(array) % shape[0]:
        return len(array) // shape[0]
    got = f"{array.dtype} {list(array.shape)}{cast_hint(name, array, numpy_dtype(value.dtype))}"
    rule = f"{name} must be {described(value)}" + (", or several of them in the first dimension" if shape else "")
    added = f"; vdla compile --shape {name}={shape_words(array.shape)} makes a plan for it" if fits else ""
    raise CommandError(f"{where}: {rule}, got {got}{added}")
