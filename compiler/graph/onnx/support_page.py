# SPDX-License-Identifier: Apache-2.0
"""The page of ONNX's operators: how each of them runs, from which opset on, or why it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
from onnx import defs

from vdla.compiler.graph.graph import OPSET
from vdla.compiler.graph.onnx.support import CONTROL_FLOW, why_unsupported
from vdla.compiler.graph.onnx.upgrade import OLDEST
from vdla.compiler.graph.onnx.upgrades import UPGRADES
from vdla.compiler.graph.onnx.values import operator_name
from vdla.compiler.graph.operators import RECORDS, Trait

_DOMAINS = {
    "": "Operators of networks (`ai.onnx`)",
    "ai.onnx.ml": "Operators of classical models (`ai.onnx.ml`)",
    "ai.onnx.preview": "Operators in preview (`ai.onnx.preview`)",
    "ai.onnx.preview.training": "Operators of training (`ai.onnx.preview.training`)",
}

_FOREIGN = {
    "com.microsoft": "Operators of ONNX Runtime (`com.microsoft`)",
    "qonnx.custom_op.general": "Operators of QONNX (`qonnx.custom_op.general`, `onnx.brevitas`)",
    "com.amd.quark": "Operators of AMD Quark (`com.amd.quark`)",
}
_REMARKS = {
    "Attention": "without rotation and buffers shared by past and present",
    "DynamicQuantizeLSTM": "its data stay float32",
    "GroupQueryAttention": "past and present apart or in one buffer; without scores and quantised caches",
    "MatMulNBits": "4 and 8 bits, without g_idx",
    "MultiHeadAttention": "without buffers shared by past and present",
    "QAttention": "without rotation and buffers shared by past and present",
    "QLinearAveragePool": "channels before the image",
    "QLinearGlobalAveragePool": "channels before the image",
    "Quant": "on integers up to 8 bits; else float32",
    "RotaryEmbedding": "without is_packed_batching and scale",
    "SkipLayerNormalization": "without mean and inv_std_var",
    "SkipSimplifiedLayerNormalization": "without mean and inv_std_var",
}

_INTRODUCTION = """\
# ONNX operators

On this page you look up whether an operator of ONNX runs, and how. It is generated from the tables
of the compiler by `python -m vdla.compiler.graph.onnx.support_page`, for the operators of onnx
{version} (opset {opset}). What becomes of the nodes of your model, and why:

```sh
vdla compile model.onnx --target pynq_z1 --calibration images.npy -o model.vdla
vdla explain model.vdla
```

A model may have any opset from {oldest} to {opset}; nodes of older opsets are rewritten to the newest
one at import. A node runs as

- a **kernel**: a tensor expression, compiled for the CPU or, where the operator allows it, for the
  accelerator. The column *fusion* says how it joins its neighbours into one kernel;
- a function on the **host**, of NumPy, where an operator has no kernel, or where its kernel does
  not take a node: its shapes or parameters are known at run time only, or its element type has no
  arithmetic;
- **kernels of others**: a model of tables as matrix products, gathered leaves of trees and
  element-wise operators, except on strings;
- its **definition**: ONNX's own, by other operators;
- **others**: operators of other domains are replaced at import by those of ONNX that compute the
  same. A quantised one becomes the float operator between `DequantizeLinear` and `QuantizeLinear`,
  of which the compiler makes an operator of integers.

A model with a node that runs in none of these ways is refused; the error lists all such nodes with
the reason.

Values follow ONNX's definitions. Where these leave something open, they are ONNX Runtime's: a
`ConvTranspose` with `auto_pad` SAME_UPPER or SAME_LOWER cuts its result to the input times the
stride, `output_padding` included, and does not extend a shorter one.

Types that a model declares for its results may be stale. What follows from the inputs counts, and a
warning names the others.
"""


def render() -> str:
    """The text of the page."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield _INTRODUCTION.format(version=onnx.__version__, opset=OPSET, oldest=OLDEST).rstrip()
    for domain, title in _DOMAINS.items():
        versions = _versions(domain)
        rows = [_row(domain, op, since) for op, since in sorted(versions.items())]
        count = sum(not why_unsupported(domain, op) for op in versions)
        yield f"\n## {title}\n\n{count} of {len(versions)} run.\n"
        yield "| operator | runs as | fusion | opsets of its versions | remark |\n|---|---|---|---|---|"
        yield from rows
    yield from _foreign()


def _foreign() -> Iterator[str]:
    """The operators of domains of which onnx has no schemas."""
    for domain, title in _FOREIGN.items():
        ops = [op.removeprefix(f"{domain}.") for op in sorted(UPGRADES) if op.rpartition(".")[0] == domain]
        yield f"\n## {title}\n\n{len(ops)} run.\n"
        yield "| operator | runs as | remark |\n|---|---|---|"
        yield from (f"| `{op}` | others | {_REMARKS.get(op, '')} |" for op in ops)


def _versions(domain: str) -> Mapping[str, list[int]]:
    """The operators of a domain, each with the opsets in which its meaning or types changed."""
    versions: dict[str, list[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == domain:
            versions.setdefault(schema.name, []).append(schema.since_version)
    return {op: sorted(since) for op, since in versions.items() if not _was_experimental(domain, op)}


def _was_experimental(domain: str, op: str) -> bool:
    return (domain, op) not in {(schema.domain, schema.name) for schema in defs.get_all_schemas()}


def _row(domain: str, op: str, since: list[int]) -> str:
    name = operator_name(domain, op)
    record = RECORDS.get(name)
    fusion = "" if record is None or record.expression is None else record.fusion.value
    oldest = max((version for version in since if version <= OLDEST), default=since[0]) if not domain else since[0]
    opsets = ", ".join(str(version) for version in since if version >= oldest)
    return f"| `{op}` | {_runs_as(domain, op)} | {fusion} | {opsets} | {_remark(domain, op)} |"


def _runs_as(domain: str, op: str) -> str:
    name = operator_name(domain, op)
    if name in CONTROL_FLOW:
        return "host, its bodies node by node"
    if op == "Constant":
        return "data of the model"
    record = RECORDS.get(name)
    if record is not None:
        kinds = {
            "kernel": record.expression is not None,
            "kernels of others": record.has(Trait.TABULAR),
            "host": record.on_host,
        }
        return ", ".join(kind for kind, runs in kinds.items() if runs)
    return "refused" if why_unsupported(domain, op) else _otherwise(name)


def _otherwise(name: str) -> str:
    """An operator without an implementation that runs all the same."""
    return "its successor" if name in UPGRADES else "definition"


def _remark(domain: str, op: str) -> str:
    reason = why_unsupported(domain, op)
    if reason:
        return reason
    name = operator_name(domain, op)
    upgraded = sorted(UPGRADES.get(name, {}))
    return f"rewritten from {', '.join(map(str, upgraded))}" if upgraded else ""


def main() -> None:
    """`python -m vdla.compiler.graph.onnx.support_page > docs/onnx-support.md`."""
    print(render(), end="")


if __name__ == "__main__":
    main()
