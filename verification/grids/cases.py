# SPDX-License-Identifier: Apache-2.0
"""One case of a grid: a node with its operands, and the ways in which a model may hold it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from onnx import GraphProto, ModelProto, SparseTensorProto, TensorProto, ValueInfoProto, defs, helper, numpy_helper

from vdla.compiler.graph.graph import OPSET
from vdla.verification.grids.attention import ATTENTION
from vdla.verification.grids.bodies import BODIES
from vdla.verification.grids.classical import CLASSICAL
from vdla.verification.grids.draw import Array, Draw, NodeDraft, OperatorVersion
from vdla.verification.grids.elementwise import ELEMENTWISE, Drafter
from vdla.verification.grids.fused import FUSED
from vdla.verification.grids.movement import MOVEMENT
from vdla.verification.grids.networks import NETWORKS
from vdla.verification.grids.qonnx import DOMAINS, QONNX
from vdla.verification.grids.quantised import MICROSOFT, QUANTISED
from vdla.verification.grids.signals import SIGNALS
from vdla.verification.grids.vision import VISION

OLDEST = 7  # the oldest opset that ONNX Runtime accepts
_IR_VERSION = 10
RUNTIME = "com.microsoft"  # the domain of ONNX Runtime, whose operators it alone computes
_OLDEST_OF_QONNX = 9  # the opset with which its first models were exported
_OF_DOMAINS = 21  # the opset beside other domains, which both references know

DRAFTERS: Mapping[str, Drafter] = {
    **ELEMENTWISE,
    **MOVEMENT,
    **NETWORKS,
    **QUANTISED,
    **ATTENTION,
    **VISION,
    **BODIES,
    **SIGNALS,
    **CLASSICAL,
    **{f"{RUNTIME}.{name}": drafter for name, drafter in {**MICROSOFT, **FUSED}.items()},
    **{f"{domain}.{name}": drafter for domain in DOMAINS for name, drafter in QONNX.items()},
}
"""What draws the operands of each operator."""


class Form(Enum):
    """How a model holds the operands of its node, and what it declares."""

    CONSTANTS = "constants"  # parameters are initialisers
    INPUTS = "inputs"  # all operands are inputs
    FOLDED = "folded"  # all operands are initialisers
    NODES = "nodes"  # parameters are results of Constant nodes
    STALE = "stale"  # as CONSTANTS; the declared shape of the result is that of another input
    SYMBOLIC = "symbolic"  # as CONSTANTS; extents of the inputs are symbols


@dataclass(frozen=True)
class GridCase:
    """A node of one version of an operator; equal keys are equal cases."""

    version: OperatorVersion
    opset: int
    number: int
    seed: int
    draft: NodeDraft
    form: Form

    @property
    def operator(self) -> str:
        """The operator's name, with its domain where that is not ONNX's own."""
        return operator_of(self.version)

    @property
    def key(self) -> str:
        """What tells the case from others, and draws it again."""
        return f"{self.operator}-{self.version.since}/{self.number}"

    @property
    def text(self) -> str:
        """The case for a reader."""
        kinds = [
            "none" if item is None else f"{item.dtype.name}{list(item.shape)}".replace("object", "str")
            for item in self.draft.inputs
        ]
        named = ", ".join(f"{name}={_plain(value)}" for name, value in self.draft.attributes.items())
        return f"{self.key} ({self.form.value}, opset {self.opset}): {', '.join(kinds)}; {named}"

    def arrays(self, form: Form | None = None) -> dict[str, Array]:
        """The inputs of the model in a form."""
        chosen = self.form if form is None else form
        return {name: x for name, x, constant in self._operands(chosen) if not constant}

    def model(self, form: Form | None = None) -> ModelProto:
        """The model in a form; by default that of the case."""
        chosen = self.form if form is None else form
        operands = list(self._operands(chosen))
        inputs = [_input(name, x, chosen) for name, x, constant in operands if not constant]
        fixed = [numpy_helper.from_array(x, name) for name, x, constant in operands if constant]
        names = self.draft.names or [f"x{i}" if x is not None else "" for i, x in enumerate(self.draft.inputs)]
        results = ["" if i in self.draft.absent else f"y{i}" for i in range(self.draft.outputs)]
        node = helper.make_node(
            self.version.name, _trimmed(names), results, "node", domain=self.version.domain, **self.draft.attributes
        )
        nodes = [*self.draft.before, node]
        if chosen is Form.NODES:
            nodes = [*(helper.make_node("Constant", [], [item.name], value=item) for item in fixed), *nodes]
            fixed = []
        outputs = [ValueInfoProto(name=name) for name in results if name]
        graph = helper.make_graph(nodes, "case", inputs, outputs, fixed)
        opsets = [helper.make_opsetid("", self.opset)]
        if self.version.domain:
            opsets.append(helper.make_opsetid(self.version.domain, self.version.since))
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)

    def _operands(self, form: Form) -> Iterator[tuple[str, Array, bool]]:
        """Name, value, and whether it is constant, of the operands that are given."""
        for place, x in enumerate(self.draft.inputs):
            if x is not None:
                parameter = form is not Form.INPUTS and place in self.draft.constant
                yield f"x{place}", x, form is Form.FOLDED or parameter or place in self.draft.fixed


def _plain(value: Any) -> str:  # noqa: ANN401  of any type of attributes
    if isinstance(value, SparseTensorProto):
        return "sparse"
    if isinstance(value, GraphProto):
        return f"body {' '.join(node.op_type for node in value.node)}"
    return f"tensor {numpy_helper.to_array(value).tolist()}" if isinstance(value, TensorProto) else repr(value)


def _trimmed(names: Sequence[str]) -> list[str]:
    kept = list(names)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _input(name: str, x: Array, form: Form) -> ValueInfoProto:
    shape: Sequence[int | str] = x.shape
    if form is Form.SYMBOLIC:
        shape = [f"{name}_{axis}" for axis in range(x.ndim)]
    code = TensorProto.STRING if x.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(x.dtype)
    return helper.make_tensor_value_info(name, code, shape)


def with_results(model: ModelProto, results: Sequence[Array], more: int = 0) -> ModelProto:
    """The model with the types of its results declared, every extent by so many too great."""
    made = ModelProto()
    made.CopyFrom(model)
    for value, result in zip(made.graph.output, results, strict=True):
        code = TensorProto.STRING if result.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(result.dtype)
        value.CopyFrom(helper.make_tensor_value_info(value.name, code, [extent + more for extent in result.shape]))
    return made


# --- versions -------------------------------------------------------------------------------------


def operator_of(version: OperatorVersion) -> str:
    """The operator's name, with its domain where that is not ONNX's own."""
    return f"{version.domain}.{version.name}" if version.domain else version.name


@cache
def versions_of(operator: str) -> tuple[tuple[OperatorVersion, int], ...]:
    """The versions of an operator, each with the newest opset in which it holds."""
    if operator.startswith(RUNTIME):
        return ((OperatorVersion(operator.removeprefix(f"{RUNTIME}."), RUNTIME), OPSET),)
    *domain, name = operator.rsplit(".", 1)
    if domain and domain[0] in DOMAINS:
        return ((OperatorVersion(name, domain[0], 1), _OLDEST_OF_QONNX), (OperatorVersion(name, domain[0], 2), OPSET))
    schemas = [item for item in defs.get_all_schemas_with_history() if item.name == name]
    schemas = [item for item in schemas if item.domain == "".join(domain)]
    schemas.sort(key=lambda item: int(item.since_version))
    if domain:
        return tuple((OperatorVersion.of(item), _OF_DOMAINS) for item in schemas)
    ends = [int(item.since_version) - 1 for item in schemas[1:]] + [OPSET]
    pairs = zip(schemas, ends, strict=True)
    return tuple((OperatorVersion.of(item), end) for item, end in pairs if end >= OLDEST and not item.deprecated)


@dataclass(frozen=True)
class Grid:
    """So many cases of each version of some operators, numbered in a row."""

    operators: tuple[str, ...]
    seed: int = 0
    count: int = 1

    def __len__(self) -> int:
        return self.count * len(self.versions)

    @property
    def versions(self) -> list[tuple[OperatorVersion, int]]:
        """The versions of all operators, each with its opset."""
        return [pair for name in self.operators for pair in versions_of(name)]

    def case(self, place: int) -> GridCase:
        """The case of a number below the length."""
        version, opset = self.versions[place // self.count]
        return case_of(version, opset, place % self.count, self.seed)


def case_of(version: OperatorVersion, opset: int, number: int, seed: int) -> GridCase:
    """One case."""
    name = operator_of(version)
    draw = Draw(version, [seed, zlib.crc32(name.encode()), version.since, number])
    draft = DRAFTERS[name](draw)
    return GridCase(version=version, opset=opset, number=number, seed=seed, draft=draft, form=_form(draw, number))


def _form(draw: Draw, number: int) -> Form:
    forms = tuple(Form)
    return forms[(number // 2) % len(forms)] if number % 2 else Form.CONSTANTS
