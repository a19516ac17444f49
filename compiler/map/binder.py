"""What the operands of an intrinsic stand for in an expression: two trees compared node by node,
commutative operations in both orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from vdla.compiler import ir, te
from vdla.compiler.map.table import Pairs, index_pairs
from vdla.compiler.tensorize import Intrinsic

Binding = dict[str, ir.Expr]
"""What each operand stands for; a table, for the load of its tensor."""


@dataclass(frozen=True, slots=True)
class Binder:
    """Compares parts of the value of `intrinsic` with expressions over `tensors`.

    `stands_for(operand, part)` says whether an operand that is no table may stand for a part.
    """

    intrinsic: Intrinsic
    tensors: Mapping[str, te.Tensor]
    stands_for: Callable[[str, ir.Expr], bool]

    def bind(self, pattern: ir.Expr, target: ir.Expr) -> Iterator[Binding]:
        """All ways in which `pattern` is `target`."""
        match pattern, target:
            case ir.Load(buffer=name), ir.Load() if name in self.intrinsic.tables:
                yield from self._table(pattern, target)
            case ir.Load(buffer=name), _ if name not in self.intrinsic.tables:
                if self.stands_for(name, target):
                    yield {name: target}
            case ir.Cast(dtype=one, value=a), ir.Cast(dtype=other, value=b) if one == other:
                yield from self.bind(a, b)
            case ir.Binary(op=one, a=a, b=b), ir.Binary(op=other, a=c, b=d) if one == other:
                yield from self._all(((a, c), (b, d)))
                if one in ir.COMMUTATIVE_OPS:
                    yield from self._all(((a, d), (b, c)))
            case (ir.Call(name=one), ir.Call(name=other)) if one == other:
                yield from self._all(tuple(zip(pattern.args, target.args, strict=True)))
            case ir.Select(), ir.Select():
                yield from self._all(tuple(zip(ir.operands(pattern), ir.operands(target), strict=True)))
            case ir.Const(), ir.Const() if pattern == target:
                yield {}

    def _table(self, pattern: ir.Load, target: ir.Load) -> Iterator[Binding]:
        entry = self.intrinsic.behaviour.buffers[pattern.buffer]
        if target.buffer not in self.tensors or self.tensors[target.buffer].dtype != entry.dtype:
            return
        for pairs in index_pairs(pattern, entry.dims, target, self.tensors[target.buffer]):
            for found in self._all(pairs):
                yield {pattern.buffer: target, **found}

    def _all(self, pairs: Pairs) -> Iterator[Binding]:
        """All ways in which the parts of every pair are the same at once."""
        if not pairs:
            yield {}
            return
        for one in self.bind(*pairs[0]):
            for other in self._all(pairs[1:]):
                if all(other[name] == part for name, part in one.items() if name in other):
                    yield {**one, **other}
