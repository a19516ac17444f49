# SPDX-License-Identifier: Apache-2.0
"""The declaration of a stage on the way out: what is done to requantised results.

Every compute instruction of the machine can send its results through the stage (`emit=stage`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike

from vdla.compiler import ir, te
from vdla.compiler.extensions.behaviour import behaviour_of, check_behaviour, read_datapath, single_stage
from vdla.compiler.extensions.operands import state_arguments
from vdla.compiler.extensions.state import ExtensionError, State, caller, check_operand, state_ports
from vdla.compiler.extensions.step_text import SUMS, StepText
from vdla.hardware.config import Config
from vdla.hardware.isa import DECLARED_SIZES, PlugInStage, StatePort
from vdla.support.integers import is_int
from vdla.support.keywords import checked_keywords


@checked_keywords(ExtensionError, caller)
@dataclass(frozen=True, eq=False, kw_only=True)
class EmitStage:
    """What a machine does to results between requantisation and output buffer.

    `output` computes an entry of results, `batch` x `block_out` of the activations' dtype, from one
    placeholder of the same kind; both have the scope "out". The other placeholders are whole
    states of the declaration. Results take `latency` cycles more, an integer, as do those of all
    instructions of the machine. `datapath` is that of the declaration, as in an `Extension`.
    """

    name: str
    output: te.Tensor
    scopes: Mapping[str, str | State]
    doc: str
    latency: int = 0
    version: int = 1
    datapath: str | PathLike[str] | None = None
    place: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", caller())
        if not isinstance(self.name, str) or not self.name.isidentifier() or self.name != self.name.lower():
            raise ExtensionError(f"{self.place}: stage: name must be a lower-case identifier, got {self.name!r}")
        if not isinstance(self.doc, str) or not self.doc.strip():
            raise ExtensionError(f"{self._where}: doc must say in a sentence what the stage does, got {self.doc!r}")
        if not is_int(self.latency) or self.latency < 0:
            raise ExtensionError(f"{self._where}: latency must be an integer of at least 0, got {self.latency!r}")
        if single_stage(self._where, "output", self.output).reduction is not None:
            raise ExtensionError(f"{self._where}: output must be no reduction, got {self.output!r}")
        check_behaviour(self._where, self.behaviour)
        self._check_scopes()

    @property
    def _where(self) -> str:
        return f"{self.place}: stage {self.name}"

    @cached_property
    def behaviour(self) -> ir.Function:
        """The behaviour as a loop nest: placeholders first, the output last."""
        return behaviour_of([self.output], self.name)

    @property
    def operand(self) -> str:
        """The placeholder that is the requantised entry."""
        return next(name for name in self.behaviour.params if self.scopes[name] == "out")

    def _check_scopes(self) -> None:
        names, given = sorted(self.behaviour.params), sorted(self.scopes)
        if names != given:
            got = ", ".join(given) or "none"
            raise ExtensionError(f"{self._where}: scopes must name exactly {', '.join(names)}, got {got}")
        for name, scope in self.scopes.items():
            if scope != "out" and not isinstance(scope, State):
                raise ExtensionError(f"{self._where}: scope of {name} must be out or a State, got {scope!r}")
        placed = [name for name in self.behaviour.params if self.scopes[name] == "out"]
        if len(placed) != 2 or placed[-1] != self.output.name:
            rule = f"scope out must be that of one operand and of {self.output.name}"
            raise ExtensionError(f"{self._where}: {rule}, got {', '.join(placed) or 'none'}")

    def plug_in_stage(self, config: Config, unit: str) -> PlugInStage:
        """Its plug-in for the machine `config`; ExtensionError where it does not fit.

        `unit` is the name of its declaration.
        """
        buffers, entry = self.behaviour.buffers, (config.batch, config.block_out)
        for name in (self.operand, self.output.name):
            kind = (buffers[name].dtype, tuple(buffers[name].dims))
            if kind != (config.out_dtype, entry):
                rule = f"{name} must be {config.out_dtype}{list(entry)} in scope out"
                raise ExtensionError(f"{self._where}: {rule}, got {kind[0]}{list(kind[1])}")
        ports = self._states(unit)
        made = PlugInStage(
            name=self.name,
            doc=self.doc,
            version=self.version,
            sizes=tuple((name, getattr(config, name)) for name in DECLARED_SIZES),
            operand=self.operand,
            states=ports,
            latency=self.latency,
            kernel="",
            unit=unit,
            place=self.place,
            datapath=read_datapath(self._where, self.place, self.datapath, None),
        )
        return replace(made, kernel=self._text(ports))

    def _states(self, unit: str) -> tuple[StatePort, ...]:
        buffers = self.behaviour.buffers
        reads = [(name, scope) for name, scope in self.scopes.items() if isinstance(scope, State)]
        for name, state in reads:
            check_operand(self._where, name, state, buffers[name].dtype, buffers[name].dims)
            if state.rows > 1 and not state.is_whole(buffers[name].dims):
                raise ExtensionError(f"{self._where}: {name} must be all rows of state {state.name}, got one row")
        operands = [(name, state, state.is_whole(buffers[name].dims)) for name, state in reads]
        return state_ports(self._where, unit, operands, [], [])

    def _text(self, ports: tuple[StatePort, ...]) -> str:
        arguments = {self.operand: "value", self.output.name: SUMS}
        arguments |= {port.operand: f"old_{port.state.name}" for port in ports if port.operand is not None}
        signature = ", ".join(["stage(new, value", *state_arguments(ports)]) + ")"
        return StepText(self._where, self.behaviour, arguments, {}, {}).text(signature)
