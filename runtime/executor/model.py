# SPDX-License-Identifier: Apache-2.0
"""A compiled network: called with arrays, saved as one file, explained, profiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.runtime.devices import Device, open_device, require_device_name
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.artifact_certificate import ArtifactCertificate
from vdla.runtime.executor.bind_kernels import KernelBinder
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.executor.executor import Executor, NetworkResult, ObserveProgram
from vdla.runtime.executor.generated_text import GeneratedText
from vdla.runtime.executor.grid_executor import GridExecutor
from vdla.runtime.executor.pending_run import PendingRun, RunQueue
from vdla.runtime.executor.plan import PlannedValue, Step
from vdla.runtime.executor.specialised import SpecialisedExecutors, SpecialiseModel, specialiser_here
from vdla.runtime.executor.throughput import Throughput, measure_throughput
from vdla.runtime.grid.protocol import GridDeviceError
from vdla.runtime.grid.registry import open_grid_device
from vdla.runtime.numpy_operators import FUNCTIONS
from vdla.support.html_repr import shown_by

Array = npt.NDArray[Any]
_HOST = "host"


class Model:
    """A compiled network, ready to run.

    `model(x)` takes the inputs in the model's order or by name, and returns the output, or a tuple
    of outputs. Programs of the accelerator run on `device`: an open device, or a name or an address
    as `open_device` takes it; "host" for a network without programs. Kernels of the CPU run on all
    processors; `vdla.native.set_threads` limits them. `specialise` compiles the network for inputs
    of shapes that it has no plan for; by default, as its file says, where there is a compiler.
    `expressions` makes what the programs of each plan must compute, for `vdla.certify`.
    """

    def __init__(
        self,
        artifact: Artifact,
        device: str | Device = "sim",
        *,
        specialise: SpecialiseModel | None = None,
        expressions: Callable[[], bytes] = bytes,
    ) -> None:
        self.artifact = artifact
        self.certify_seconds: float | None = None
        """What it took to certify the programs of a model that was compiled just now."""
        self._expressions = expressions
        self._require(device)
        self._device_choice = device
        self._executor: Executor | None = None
        self._device: Device | None = None
        self._queue = RunQueue(f"model {self.name}")
        self._specialise = specialise
        self._specialised = SpecialisedExecutors(self._executor_of, specialise or specialiser_here(artifact))

    def _require(self, device: str | Device) -> None:
        """ModelError for the host as the device of programs, DeviceError for an unknown name."""
        if isinstance(device, str) and device == _HOST:
            if self.artifact.config is not None:
                machine = self.artifact.config.name
                raise ModelError(
                    f"model {self.name}: device must be one that runs programs for {machine}, such as sim, got host; "
                    f"to run on the CPU alone, compile it for host"
                )
        elif not isinstance(device, Device):
            require_device_name(device)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.artifact.plan.name

    @property
    def expressions(self) -> bytes:
        """What the programs of each plan must compute; nothing where it was not kept."""
        return self.artifact.expressions or self._expressions()

    def with_expressions(self) -> Model:
        """The model whose file keeps what its programs must compute, weights included, so that
        `vdla certify` can check it again.
        """
        return Model(replace(self.artifact, expressions=self.expressions), self._device_choice)

    def with_certificate(self, certificate: ArtifactCertificate) -> Model:
        """The model whose file has a certificate of its programs."""
        artifact = replace(self.artifact, certificate=certificate)
        device, specialise = self._device_choice, self._specialise
        return Model(artifact, device, specialise=specialise, expressions=self._expressions)

    @property
    def inputs(self) -> dict[str, PlannedValue]:
        """The inputs in order, with dtype and shape: the first shape where there are several."""
        return {name: self.artifact.plan.values[name] for name in self.artifact.plan.inputs}

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs in order."""
        return self.artifact.plan.outputs

    def __call__(self, *arrays: Array, **named: Array) -> Array | tuple[Array, ...]:
        """The output, or a tuple of outputs; ExecutorError for inputs that do not fit."""
        inputs = self._by_name(arrays, named)
        executor, plan = self._specialised.chosen(self._general, inputs)
        results = executor.outputs(inputs, plan)
        return next(iter(results.values())) if len(results) == 1 else tuple(results.values())

    def run(
        self,
        inputs: Mapping[str, Array],
        progress: Callable[[Step], None] | None = None,
        observe_program: ObserveProgram | None = None,
    ) -> NetworkResult:
        """One run on inputs by name: all outputs, and what each step took. `progress` is called
        after each step, `observe_program` before each run of a program, with what it takes.
        """
        executor, plan = self._specialised.chosen(self._general, inputs)
        return executor.run(inputs, progress, plan=plan, observe_program=observe_program)

    def start(self, *arrays: Array, **named: Array) -> PendingRun:
        """A run as a call makes it, without waiting for it: runs are done in their order, and the
        caller may prepare the next input meanwhile. Inputs are copied.
        """
        inputs = {name: array.copy() for name, array in self._by_name(arrays, named).items()}
        return self._queue.start(lambda: self(**inputs))

    def throughput_test(self, runs: int = 100) -> Throughput:
        """Runs and images a second, measured, with the accelerator's part of it."""
        return measure_throughput(self.name, self.inputs, self.run, runs)

    def generate(
        self,
        prompt: str,
        *,
        tokens: str | PathLike[str] | None = None,
        length: int = 64,
        temperature: float = 0.0,
        top_k: int | None = None,
        seed: int = 0,
        cache_type: str = "float32",
    ) -> GeneratedText:
        """The text with which a decoder continues a prompt, an iterator of pieces as they come.

        `tokens` is a file of the package `tokenizers`, by default the one that the model was saved
        with; `temperature` 0 takes the likeliest token, higher ones draw among the `top_k`
        likeliest, or among all. A cache of `cache_type` int8 keeps keys and values in 8 bits, with
        a scale a head and token. `vdla.compile_decoder` compiles decoders.

        Raises:
            GenerateError: no decoder, a tokenizer of another model, or a cache that is too small.
        """
        module = import_module("vdla.runtime.generate.generation")  # not there on a board
        made: GeneratedText = module.generate(
            self, prompt, tokens=tokens, length=length, temperature=temperature, top_k=top_k, seed=seed,
            cache_type=cache_type,
        )  # fmt: skip
        return made

    def _general(self) -> Executor:
        return self.executor

    def _by_name(self, arrays: Sequence[Array], named: Mapping[str, Array]) -> dict[str, Array]:
        names = self.artifact.plan.inputs
        if len(arrays) > len(names):
            raise ModelError(f"model {self.name}: inputs must be at most {len(names)}, got {len(arrays)}")
        given = dict(zip(names, map(np.asarray, arrays), strict=False))
        repeated = given.keys() & named.keys()
        if repeated:
            raise ModelError(f"model {self.name}: {min(repeated)} must be given once, got it twice")
        return given | {name: np.asarray(array) for name, array in named.items()}

    @property
    def executor(self) -> Executor:
        """The executor, made at the first use; it opens the device if there are programs."""
        if self._executor is None:
            self._executor = self._executor_of(self.artifact)
        return self._executor

    def _executor_of(self, artifact: Artifact) -> Executor:
        """An executor of the network, or of what it is for other shapes."""
        return Executor(artifact, KernelBinder(artifact).bind, FUNCTIONS, self._open_device(), self._grid(artifact))

    def _grid(self, artifact: Artifact) -> GridExecutor | None:
        """The part of a network on a GPU, on that GPU."""
        part = artifact.grid
        if part is None:
            return None
        try:
            return GridExecutor(part, artifact.constants, open_grid_device(part.device))
        except GridDeviceError as error:
            raise ModelError(f"model {self.name}: its GPU must be available, got {error}") from None

    def _open_device(self) -> Device | None:
        config = self.artifact.config
        if config is None or isinstance(self._device_choice, Device):
            return None if config is None else self._device_choice  # type: ignore[return-value]
        if self._device is None:
            self._device = open_device(self._device_choice, config)
        return self._device

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file, whole or not at all."""
        self.artifact.save(path)

    @staticmethod
    def load(path: str | PathLike[str], device: str | Device = "sim", *, trust: str | None = None) -> Model:
        """The model in a file that `save` wrote; ArtifactError says what is wrong with it.

        `trust` is the SHA-256 of a file, or of the certificate in it, whose programs are not
        verified again.
        """
        return Model(Artifact.load(path, trust), device)

    def close(self) -> None:
        """Free the memory on the device; the model opens it again when needed.

        A run in progress is waited for; those that have not begun are withdrawn.
        """
        self._queue.close()
        self._specialised.close()
        if self._executor is not None:
            self._executor.close()
        if self._device is not None:
            self._device.close()
        self._executor = self._device = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    _repr_html_ = shown_by("networks", "model_html")

    def __repr__(self) -> str:
        return f"<Model {self.name}: {len(self.artifact.plan.steps)} steps>"
