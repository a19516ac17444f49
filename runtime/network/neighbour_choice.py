# SPDX-License-Identifier: Apache-2.0
"""Tiles and programs that suit their neighbours: an extension's program, the template whose results
it reads and the one that reads its results, timed as one chain.

Alone, a template that computes some channels of all rows first is the fastest, and so are large
strips. In a chain, small strips of all channels begin while the rows behind them are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from vdla.compiler.codegen.vdla import AllocationError, LoweringError
from vdla.compiler.graph import Graph
from vdla.compiler.graph.accelerator import ACCELERATED, REGION, OperatorCall
from vdla.compiler.graph.machine.calls import looked_up
from vdla.compiler.operators.vdla import Chain, ChainStep, Operator, WrittenOperator
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT
from vdla.compiler.operators.vdla.tiling import fits
from vdla.hardware.program import Program
from vdla.runtime.network.plug_in_choice import PlugInChoice

_GAP = 0.15  # of the cycles of a pair, those in which its busiest unit is idle: less is not worth trials
_GAIN = 0.98
_SLOWER = 1.1  # than the fastest program alone
_SHARES = (2, 3)  # of the buffer of results, which a tile fills

Calls = Mapping[str, OperatorCall]
_Pair = tuple[OperatorCall, OperatorCall]
_Key = tuple[Operator, str, Operator | None]


@dataclass
class NeighbourChoice:
    """Gives calls that take fewer cycles together than those that are the fastest alone."""

    better: PlugInChoice
    _known: dict[_Key, tuple[Operator, int] | None] = field(default_factory=dict)

    def divided(self, graph: Graph, calls: Calls, divide: Callable[[Calls], Graph]) -> tuple[Graph, Calls]:
        """The graph in regions, and its calls: others than those given if whole programs, in which
        loads of other operators go ahead, take fewer cycles with them.
        """
        made, others = divide(calls), self.together(graph, calls)
        if others is calls:
            return made, calls
        other = divide(others)
        return (other, others) if self._cycles_of(other) < self._cycles_of(made) else (made, calls)

    def _cycles_of(self, graph: Graph) -> int:
        regions = [node.attributes[REGION] for node in graph.nodes if node.op == ACCELERATED]
        return sum(self.better.time(region.chain.program).total_cycles for region in regions)

    def together(self, graph: Graph, calls: Calls) -> Calls:
        """The calls, with others of the same layouts in place of those that take more together."""
        result: Calls = calls
        for node in graph.nodes:
            name = node.outputs[0]
            call, maker = calls.get(name), self._maker(graph, calls, name)
            if call is None or not maker or not isinstance(calls[maker].operator, Operator):
                continue
            pair = self._faster(result[maker], call, name, _reader(graph, calls, name, call))
            if pair is not None:
                changed = {**result, maker: pair[0], name: pair[1]}
                result = _with_tables(graph, changed, result)
        return result

    def _maker(self, graph: Graph, calls: Calls, name: str) -> str:
        """The result of the operator whose results a program of an extension reads; nothing if it
        has no other program.
        """
        call = calls.get(name)
        if call is None or len(self.better.offers.get(name, ())) < 2 or len(call.inputs) != 1:
            return ""
        ((value, layout),) = call.inputs.values()
        table = calls.get(value)
        if table is not None and table.with_maker is not None:
            value = graph.producers[value].inputs[0]
        made = calls.get(value)
        return value if made is not None and made.output.same_bytes(layout) else ""

    def _faster(self, first: OperatorCall, second: OperatorCall, name: str, last: Operator | None) -> _Pair | None:
        """The fastest pair; None if that is the given one."""
        assert isinstance(first.operator, Operator)
        assert isinstance(second.operator, WrittenOperator)
        key = first.operator, second.operator.program.hash, last
        others = [one for one in self.better.alternatives(name, second) if _cycles(one) <= _SLOWER * _cycles(second)]
        if key not in self._known:
            self._known[key] = self._tried(first, second, others, last)
        chosen = self._known[key]
        if chosen is None:
            return None
        operator, number = chosen
        right = self.better.is_right(name, others[number])
        return (replace(first, operator=operator), others[number]) if right else None

    def _tried(
        self, first: OperatorCall, second: OperatorCall, others: list[OperatorCall], last: Operator | None
    ) -> tuple[Operator, int] | None:
        """What is in place of the first operator, and which call is in place of the second one."""
        run = self.better.time(_chain(first, second, last))
        least = run.total_cycles
        if least - max(run.counters[unit]["busy"] for unit in ("load", "compute", "store")) < _GAP * least:
            return None
        chosen, least = None, int(_GAIN * least)
        assert isinstance(first.operator, Operator)
        for operator, number in product([first.operator, *_by_rows(first.operator)], range(len(others))):
            try:
                program = _chain(replace(first, operator=operator), others[number], last)
            except (AllocationError, LoweringError):  # no tiles that have room together
                continue
            cycles = self.better.time(program).total_cycles
            if cycles < least:
                chosen, least = (operator, number), cycles
        return chosen


def _cycles(call: OperatorCall) -> int:
    assert isinstance(call.operator, WrittenOperator)
    return call.operator.cycles


def _reader(graph: Graph, calls: Calls, name: str, made: OperatorCall) -> Operator | None:
    """The operator that reads a result in place, perhaps through a table, and nothing else."""
    for node in graph.consumers.get(name, ()):
        call = calls.get(node.outputs[0])
        if call is not None and call.with_maker is not None:
            return _reader(graph, calls, node.outputs[0], made)
        if call is None or not isinstance(call.operator, Operator) or list(call.inputs) != [DATA]:
            continue
        ((value, layout),) = call.inputs.values()
        if value == name and made.output.same_bytes(layout):
            return call.operator
    return None


def _chain(first: OperatorCall, second: OperatorCall, last: Operator | None) -> Program:
    """The program of operators one behind the other."""
    assert first.operator is not None
    assert second.operator is not None
    between = dict.fromkeys(second.inputs, "between")
    steps = [
        ChainStep("first", first.operator, {**{name: name for name in first.inputs}, str(OUTPUT): "between"}),
        ChainStep("second", second.operator, {**between, str(OUTPUT): "results"}),
    ]
    if last is None:
        return Chain(first.operator.config, "pair", steps, ("results",)).program
    steps.append(ChainStep("last", last, {str(DATA): "results", str(OUTPUT): "end"}))
    return Chain(first.operator.config, "pair", steps, ("end",)).program


def _by_rows(operator: Operator) -> Iterator[Operator]:
    """The operator in tiles of all channels and few rows."""
    config, problem, origin = operator.config, operator.problem, operator.origin
    if origin is None:
        return
    sizes = set()
    for share, part in product(_SHARES, (1, 2)):
        cols = -(-problem.cols // part)
        most = config.out_depth // share // (problem.out_blocks * cols)
        rows = -(-problem.rows // -(-problem.rows // most)) if most else 0
        sizes |= {(min(rows, problem.rows), cols)} if most else set()
    for rows, cols in sorted(sizes):
        every = replace(operator.tiling, out_blocks=problem.out_blocks, in_blocks=problem.in_blocks)
        tiling = replace(every, rows=rows, cols=cols, by_blocks=False, threads=1)
        if fits(config, problem, tiling):
            made = origin.template(config, **{**origin.options, "tiling": tiling})
            if made.layouts == operator.layouts and made.shapes == operator.shapes:
                yield made


def _with_tables(graph: Graph, calls: Calls, before: Calls) -> Calls:
    """The calls, with tables as the way out of new ones; those before if one cannot be."""
    made = dict(calls)
    for node in graph.nodes:
        name = node.outputs[0]
        call = calls.get(name)
        if call is not None and call.with_maker is not None and calls[node.inputs[0]] is not before[node.inputs[0]]:
            together = looked_up(calls[node.inputs[0]], node.attributes["table"])
            if together is None:
                return before
            made[name] = replace(call, with_maker=together)
    return made
