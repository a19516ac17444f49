# SPDX-License-Identifier: Apache-2.0
"""The explanation of a deadlock: what each unit waits for, and the cycle of waits."""

from __future__ import annotations

from collections.abc import Iterator

from vdla.hardware.isa import QUEUES, Unit
from vdla.hardware.program import Program
from vdla.simulator.verify.naming import executing_unit, instruction_name, schedule_lines
from vdla.simulator.verify.tokens import NEVER, TokenRun, Wait
from vdla.simulator.verify.verdict import Finding, Kind

_FETCH = -1
"""The node of the fetch unit in the graph of waits; the other nodes are units."""

_Graph = dict[int, list[int]]


def token_findings(program: Program, run: TokenRun) -> Iterator[Finding]:
    """A deadlock where the run stopped early, else the queues in which it left tokens."""
    if not run.complete(len(program)):
        yield _deadlock(program, run)
        return
    for queue, tokens in enumerate(run.tokens):
        if tokens:
            yield _unbalanced(program, run, queue, tokens)


def _deadlock(program: Program, run: TokenRun) -> Finding:
    instructions = tuple(dict.fromkeys(wait.instruction for wait in run.waits))
    sentences = [f"nothing moves after {run.ended} of {len(program)} instructions"]
    sentences += [_sentence(program, run, wait) for wait in run.waits]
    blocked = run.dispatched if run.dispatched < len(program) else NEVER
    if blocked != NEVER:
        unit = executing_unit(program, blocked).label
        sentences.append(f"fetch waits at {instruction_name(program, blocked)} for room in the command queue of {unit}")
        instructions += (blocked,)
    sentences.append(_chain(program, run))
    return Finding(
        kind=Kind.DEADLOCK,
        message="; ".join(sentences),
        instructions=instructions,
        units=tuple(dict.fromkeys(wait.unit.label for wait in run.waits)),
        queues=tuple(dict.fromkeys(QUEUES[wait.queue].name for wait in run.waits)),
        schedule=schedule_lines(program, *instructions),
    )


def _sentence(program: Program, run: TokenRun, wait: Wait) -> str:
    verb = "push to" if wait.for_room else "pop from"
    state = f"full with {run.tokens[wait.queue]} tokens" if wait.for_room else "empty"
    return f"{instruction_name(program, wait.instruction)} waits to {verb} {QUEUES[wait.queue].name}, which is {state}"


# --- the graph of waits ---------------------------------------------------------------------------


def _chain(program: Program, run: TokenRun) -> str:
    graph = _graph(program, run)
    start = int(run.waits[0].unit)
    path = _walk(graph, [start])
    names = [_node(node) for node in path]
    if path[-1] in path[:-1]:
        cycle = names[path.index(path[-1]) :]
        return f"cycle of waits: {' -> '.join(cycle)}"
    return f"{' waits for '.join(names)}, which has no more instructions"


def _graph(program: Program, run: TokenRun) -> _Graph:
    """The nodes that each node waits for; a unit that waits for no token waits for fetch."""
    graph: _Graph = {int(unit): [] for unit in Unit}
    for wait in run.waits:
        graph[wait.unit].append(int(wait.other))
    if run.dispatched < len(program):
        graph[_FETCH] = [int(executing_unit(program, run.dispatched))]
        for unit in Unit:
            graph[unit] = graph[unit] or [_FETCH]
    return graph


def _walk(graph: _Graph, path: list[int]) -> list[int]:
    """The path extended to a cycle, or else to a node that waits for nothing."""
    dead_end = path
    for node in graph[path[-1]]:
        result = [*path, node] if node in path else _walk(graph, [*path, node])
        if result[-1] in result[:-1]:
            return result
        dead_end = result
    return dead_end


def _node(node: int) -> str:
    return "fetch" if node == _FETCH else Unit(node).label


# --- leftover tokens ------------------------------------------------------------------------------


def _unbalanced(program: Program, run: TokenRun, queue: int, tokens: int) -> Finding:
    last, name = run.last_push[queue], QUEUES[queue].name
    producer, consumer = QUEUES[queue].producer.label, QUEUES[queue].consumer.label
    return Finding(
        kind=Kind.UNBALANCED,
        message=f"{name} must be empty at the end, got {tokens} token{'s' * (tokens > 1)} that {consumer} never pops, "
        f"the last from {instruction_name(program, last)}",
        instructions=(last,),
        units=(producer, consumer),
        queues=(name,),
        schedule=schedule_lines(program, last),
    )
