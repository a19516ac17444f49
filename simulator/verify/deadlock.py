"""The counterexample of a deadlock: who waits where for what, and the circle of waits or the end of the chain."""

from __future__ import annotations

from collections.abc import Iterator

from vdla.hardware.isa import COL, Unit
from vdla.hardware.program import Program
from vdla.simulator.verify.naming import LINKS, QUEUES, instruction_name, schedule_lines, unit_name
from vdla.simulator.verify.tokens import NEVER, TokenRun, Wait
from vdla.simulator.verify.verdict import Finding, Kind

FETCH = -1
"""The node of the fetch unit in the graph of waits; the others are units."""

Graph = dict[int, list[int]]


def findings(program: Program, run: TokenRun) -> Iterator[Finding]:
    """Whether the run stopped early, or left tokens behind."""
    if not run.complete(len(program)):
        yield _deadlock(program, run)
        return
    for queue, left in enumerate(run.tokens):
        if left:
            yield _unbalanced(program, run, queue, left)


def _deadlock(program: Program, run: TokenRun) -> Finding:
    instructions = tuple(dict.fromkeys(wait.instruction for wait in run.waits))
    sentences = [f"nothing moves after {run.ended} of {len(program)} instructions"]
    sentences += [_sentence(program, run, wait) for wait in run.waits]
    blocked = run.dispatched if run.dispatched < len(program) else NEVER
    if blocked != NEVER:
        unit = unit_name(_unit(program, blocked))
        sentences.append(f"fetch waits at {instruction_name(program, blocked)} for room in the command queue of {unit}")
        instructions += (blocked,)
    sentences.append(_chain(program, run))
    return Finding(
        Kind.DEADLOCK,
        "; ".join(sentences),
        instructions,
        tuple(dict.fromkeys(unit_name(wait.unit) for wait in run.waits)),
        tuple(dict.fromkeys(QUEUES[wait.queue] for wait in run.waits)),
        schedule=schedule_lines(program, *instructions),
    )


def _sentence(program: Program, run: TokenRun, wait: Wait) -> str:
    verb = "push to" if wait.for_room else "pop from"
    state = f"full with {run.tokens[wait.queue]} tokens" if wait.for_room else "empty"
    return f"{instruction_name(program, wait.instruction)} waits to {verb} {QUEUES[wait.queue]}, which is {state}"


def _unit(program: Program, index: int) -> int:
    return int(program.columns[index, COL["unit"]])


# --- the graph of waits ----------------------------------------------------------------------------------------------


def _chain(program: Program, run: TokenRun) -> str:
    graph = _graph(program, run)
    start = int(run.waits[0].unit)
    path = _walk(graph, [start])
    names = [_node(node) for node in path]
    if path[-1] in path[:-1]:
        circle = names[path.index(path[-1]) :]
        return f"circle of waits: {' -> '.join(circle)}"
    return f"{' waits for '.join(names)}, which has no more instructions"


def _graph(program: Program, run: TokenRun) -> Graph:
    """From each node to those it waits for; a unit that waits for nothing in its own program waits for fetch."""
    graph: Graph = {int(unit): [] for unit in Unit}
    for wait in run.waits:
        graph[wait.unit].append(int(wait.other))
    if run.dispatched < len(program):
        graph[FETCH] = [_unit(program, run.dispatched)]
        for unit in Unit:
            graph[unit] = graph[unit] or [FETCH]
    return graph


def _walk(graph: Graph, path: list[int]) -> list[int]:
    """A path that ends where it was before, if there is one from here; else one that ends where nothing waits."""
    dead_end = path
    for node in graph[path[-1]]:
        found = [*path, node] if node in path else _walk(graph, [*path, node])
        if found[-1] in found[:-1]:
            return found
        dead_end = found
    return dead_end


def _node(node: int) -> str:
    return "fetch" if node == FETCH else unit_name(node)


# --- tokens left over ------------------------------------------------------------------------------------------------


def _unbalanced(program: Program, run: TokenRun, queue: int, left: int) -> Finding:
    last = run.last_push[queue]
    popper = unit_name(LINKS[queue][3])
    return Finding(
        Kind.UNBALANCED,
        f"{QUEUES[queue]} must be empty at the end, got {left} token{'s' * (left > 1)} that {popper} never pops, "
        f"the last from {instruction_name(program, last)}",
        (last,),
        (unit_name(LINKS[queue][1]), popper),
        (QUEUES[queue],),
        schedule=schedule_lines(program, last),
    )
