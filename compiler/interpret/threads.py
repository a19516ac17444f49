# SPDX-License-Identifier: Apache-2.0
"""Kernels executed thread by thread: `interpret_kernels(kernels, {"a": array})`.

The blocks of a launch run in a random order, and the threads of a block interleave in a random
order between barriers. Every access is noted, so a race is an error in whatever order it happens:
an element that two threads of a block access between two barriers, or two blocks of a launch, one
of them to write. So is a barrier at which not all threads of a block meet. This is the naive model
of the analysis that lowering rests on, `compiler/analysis/thread_races.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import loop_ranges
from vdla.compiler.interpret.memory import Indices, InterpreterMemory, InterpretError
from vdla.compiler.interpret.scalar import ClosureCompiler
from vdla.compiler.ir import BLOCK_AXES, THREAD_AXES, Array, GridKernel, index_text, storage_dtype, wrap

_Env = dict[str, Any]
_Element = tuple[str, tuple[int, ...]]
_Stop = tuple[int, ir.BarrierScope | None, tuple[int, ...]] | None
"""A barrier by its number, or a shuffle of a warp without a scope, in iterations of the loops
around it; None between statements."""
_Epoch = tuple[int, int]  # a warp, and how many barriers of its own it has passed
_Steps = Callable[[_Env], Generator[_Stop, None, None]]
_SELF = "self"  # the running thread, in the environment of its variables
_WRITE = "write"
_MOST_STEPS = 8  # of a thread before another one may run


def interpret_kernels(kernels: Sequence[GridKernel], arrays: Mapping[str, Array], seed: int = 0) -> dict[str, Array]:
    """What launches of `kernels`, one after another, write to global buffers, by name.

    `arrays` are the global buffers that hold values before, used or not; extents must be numbers.

    Raises:
        InterpretError: threads race, part at a barrier, or access an element out of bounds or
            before it is written.
    """
    chance = random.Random(seed)
    buffers = {name: buffer for kernel in kernels for name, buffer in kernel.buffers.items()}
    held = _Arrays.of(buffer for buffer in buffers.values() if buffer.scope not in ("shared", "local"))
    for name, array in ((name, array) for name, array in arrays.items() if name in held.arrays):
        held.arrays[name][...] = array
        held.written[name][...] = True
    changed: set[str] = set()
    with np.errstate(all="ignore"):
        for kernel in kernels:
            changed |= _Launch(kernel, held, chance).run()
    return {name: held.arrays[name] for name in buffers if name in changed}


@dataclass(frozen=True, slots=True)
class _Arrays:
    """The content of buffers, and which elements have been written."""

    arrays: dict[str, Array]
    written: dict[str, Array]

    @staticmethod
    def of(buffers: Iterable[ir.Buffer]) -> _Arrays:
        """Unwritten buffers."""
        buffers = list(buffers)
        arrays = {buffer.name: np.zeros(buffer.dims, storage_dtype(buffer.dtype)) for buffer in buffers}
        return _Arrays(arrays, {buffer.name: np.zeros(buffer.dims, np.bool_) for buffer in buffers})


@dataclass(slots=True)
class _Notes:
    """Who accessed each element since the last barrier, or launch, in which way, each with the text
    of one access."""

    rule: str
    seen: dict[_Element, dict[str, dict[Any, tuple[str, _Epoch]]]] = field(default_factory=dict)

    def note(self, who: Any, epoch: _Epoch, element: _Element, kind: str, text: str) -> None:  # noqa: ANN401
        """Notes an access by a block or a thread, and refuses a race.

        Accesses of one kind may meet, unless they write; so may those of one warp, before and after
        its barrier.
        """
        ways = self.seen.setdefault(element, {})
        for other_kind, others in ways.items():
            for other, (earlier, then) in others.items() if other_kind != kind or kind == _WRITE else ():
                if other != who and (then[0] != epoch[0] or then[1] == epoch[1]):
                    place = f"{element[0]}[{', '.join(map(str, element[1]))}]"
                    raise InterpretError(f"{self.rule}, got {earlier} and {text} at {place} by {other} and {who}")
        ways.setdefault(kind, {})[who] = (text, epoch)

    def forget(self) -> None:
        """Starts a new interval, as after a barrier."""
        self.seen.clear()


@dataclass(slots=True)
class _Thread:
    """One thread: the buffers that it sees, by scope, and where it notes its accesses."""

    index: tuple[int, ...]
    block: tuple[int, ...]
    warp: int
    memories: tuple[_Arrays, _Arrays, _Arrays]  # global, shared, local
    between_threads: _Notes
    between_blocks: _Notes
    steps: Generator[_Stop, None, None] | None = None
    stop: _Stop = None
    passed: int = 0
    done: bool = False
    others: list[_Thread] = field(default_factory=list)
    """The threads of the block, in the order of their numbers."""

    def access(self, buffer: ir.Buffer, at: tuple[int, ...], kind: str, text: str) -> tuple[Array, Array]:
        """The array of a buffer and its written elements; the access is noted."""
        scope = 1 if buffer.scope == "shared" else 2 if buffer.scope == "local" else 0
        if scope < 2:
            self.between_threads.note(self.index, (self.warp, self.passed), (buffer.name, at), kind, text)
        if scope == 0:
            self.between_blocks.note(self.block, (0, 0), (buffer.name, at), kind, text)
        held = self.memories[scope]
        return held.arrays[buffer.name], held.written[buffer.name]

    def lane(self, distance: int, warp: int) -> _Thread:
        """The thread `distance` lanes further in the warp, or this one past the end of the warp."""
        here = next(number for number, other in enumerate(self.others) if other is self)
        there = here + distance
        return self.others[there] if there < len(self.others) and there // warp == here // warp else self

    def advance(self, most: int) -> None:
        """Runs up to `most` statements, or to the next barrier or the end."""
        assert self.steps is not None
        for _ in range(most):
            try:
                self.stop = next(self.steps)
            except StopIteration:
                self.done = True
                return
            if self.stop is not None:
                return


class _Launch:
    """One launch of a kernel."""

    def __init__(self, kernel: GridKernel, held: _Arrays, chance: random.Random) -> None:
        self.kernel, self.held, self.chance = kernel, held, chance
        self.grid = [ir.number(extent, axis) for axis, extent in kernel.extents.items() if axis in BLOCK_AXES]
        self.local = [buffer for buffer in kernel.buffers.values() if buffer.scope == "local"]
        self.program = _ThreadCompiler(kernel)
        self.steps = self.program.steps(kernel.body, ())
        rule = "threads of different blocks must not access one element, to write it"
        self.between_blocks = _Notes(f"{kernel.name}: {rule}")

    def run(self) -> set[str]:
        """Runs all blocks; the global buffers that they write."""
        blocks = list(product(*map(range, self.grid)))
        self.chance.shuffle(blocks)
        for block in blocks:
            self.run_block(block)
        stores = ir.find(self.kernel.body, ir.Store)
        return {store.buffer for store in stores} & self.held.arrays.keys()

    def run_block(self, block: tuple[int, ...]) -> None:
        """Runs the threads of a block, from barrier to barrier."""
        shared = _Arrays.of(self.kernel.shared)
        rule = "threads of a block must not access one element, to write it, without a barrier between"
        notes = _Notes(f"{self.kernel.name}: {rule}")
        threads = [self.thread(block, index, shared, notes) for index in product(*map(range, self.kernel.block))]
        in_order = sorted(threads, key=lambda thread: self.place_in_block(thread.index))
        for thread in threads:
            thread.others = in_order
        while running := [thread for thread in threads if not thread.done]:
            running = [thread for thread in running if thread.stop is None]
            while running:
                thread = self.chance.choice(running)
                thread.advance(self.chance.randint(1, _MOST_STEPS))
                if thread.done or thread.stop is not None:
                    running.remove(thread)
            if not self.pass_warps(threads):
                self.check_meeting(threads)
                notes.forget()
                for thread in threads:
                    thread.stop = None

    def pass_warps(self, threads: list[_Thread]) -> bool:
        """Lets the warps whose threads wait at a barrier of their own pass it; whether any did."""
        result = False
        for number in {thread.warp for thread in threads}:
            warp = [thread for thread in threads if thread.warp == number]
            if any(not thread.done and thread.stop and thread.stop[1] is not ir.BarrierScope.BLOCK for thread in warp):
                self.check_meeting(warp)
                result = True
                for thread in warp:
                    orders = thread.stop is not None and thread.stop[1] is ir.BarrierScope.WARP
                    thread.stop, thread.passed = None, thread.passed + orders
        return result

    def thread(self, block: tuple[int, ...], index: tuple[int, ...], shared: _Arrays, notes: _Notes) -> _Thread:
        """A thread at its beginning."""
        thread = _Thread(
            index=index,
            block=block,
            warp=self.place_in_block(index) // self.kernel.warp,
            memories=(self.held, shared, _Arrays.of(self.local)),
            between_threads=notes,
            between_blocks=self.between_blocks,
        )
        env = {**dict(zip(BLOCK_AXES, block, strict=True)), **dict(zip(THREAD_AXES, index, strict=True)), _SELF: thread}
        thread.steps = self.steps(env)
        return thread

    def place_in_block(self, index: tuple[int, ...]) -> int:
        """The number of a thread, counted in x, then y, then z."""
        x, y, z = index
        return (z * self.kernel.block[1] + y) * self.kernel.block[0] + x

    def check_meeting(self, threads: list[_Thread]) -> None:
        """Refuses threads where some wait at a barrier and others at another one or at none."""
        stops = {thread.stop for thread in threads if not thread.done}
        waiting = [thread for thread in threads if not thread.done]
        if len(stops) > 1 or (waiting and len(waiting) < len(threads)):
            other = next(t for t in threads if t.done or t.stop != waiting[0].stop)
            places = f"{waiting[0].index} at one and {other.index} not"
            raise InterpretError(f"{self.kernel.name}: all threads of a block must come to a barrier, got {places}")


class _ThreadCompiler(ClosureCompiler):
    """Compiles what a thread does to generators, which stop between statements."""

    def __init__(self, kernel: GridKernel) -> None:
        axes = {axis: (0, ir.number(extent, axis) - 1) for axis, extent in kernel.extents.items()}
        super().__init__(InterpreterMemory({}, Indices(loop_ranges(kernel.body, axes))))
        self.memory.buffers = kernel.buffers
        self.warp = kernel.warp
        self.barriers = 0

    def steps(self, stmt: ir.Stmt, loops: tuple[str, ...]) -> _Steps:
        """A statement inside `loops` as a generator function."""
        match stmt:
            case ir.For(var=var, body=body):
                return _loop_steps(var, stmt.size, self.steps(body, (*loops, var)))
            case ir.If(cond=cond, body=body):
                return _conditional_steps(self.index(cond, "if"), self.steps(body, loops))
            case ir.Store():
                return self.store_steps((stmt,))
            case ir.MultiStore(stores=stores):
                return self.store_steps(stores)
            case ir.Atomic(body=ir.Store(value=ir.Binary() as value) as store):
                return self.atomic_steps(store, value)
            case ir.Shuffle(body=ir.Store(value=ir.Load() as source) as store, distance=distance):
                self.barriers += 2
                return self.shuffle_steps(store, source, distance, self.barriers, loops)
            case ir.Barrier(scope=scope):
                self.barriers += 1
                return _barrier_steps(self.barriers, scope, loops)
        return _sequence_steps([self.steps(child, loops) for child in ir.children(stmt)])

    def store_steps(self, stores: tuple[ir.Store, ...]) -> _Steps:
        """Simultaneous stores."""
        parts = [
            (
                self.memory.buffers[store.buffer],
                self.place("store", store.buffer, store.indices, store.buffer),
                self.value(store.value, store.buffer),
                f"the write of {store.buffer}[{index_text(store.indices)}]",
            )
            for store in stores
        ]

        def run(env: _Env) -> Generator[_Stop, None, None]:
            thread: _Thread = env[_SELF]
            ready = [(buffer, place(env), value(env), text) for buffer, place, value, text in parts]
            for buffer, at, value, text in ready:
                array, written = thread.access(buffer, at, _WRITE, text)
                array[at] = value
                written[at] = True
            yield None

        return run

    def atomic_steps(self, store: ir.Store, update: ir.Binary) -> _Steps:
        """An update of an element by a term, at once."""
        buffer, dtype = self.memory.buffers[store.buffer], self.memory.buffers[store.buffer].dtype
        place = self.place("update", store.buffer, store.indices, store.buffer)
        old = ir.Load(store.buffer, store.indices)
        term = self.value(update.b if update.a == old else update.a, store.buffer)
        text = f"the atomic {update.op} of {store.buffer}[{index_text(store.indices)}]"

        def run(env: _Env) -> Generator[_Stop, None, None]:
            thread: _Thread = env[_SELF]
            at, value = place(env), term(env)
            array, written = thread.access(buffer, at, update.op, text)
            if not written[at]:
                element = f"{buffer.name}[{', '.join(map(str, at))}]"
                raise InterpretError(f"{buffer.name}: {element} must be written before it is read, got a read first")
            array[at] = wrap(np.asarray(ir.OPERATORS[update.op].on_arrays(array[at], value)), dtype)
            yield None

        return run

    def shuffle_steps(self, store: ir.Store, source: ir.Load, distance: int, number: int,
                      loops: tuple[str, ...]) -> _Steps:  # fmt: skip
        """A store of what another lane holds; the lanes meet before and after."""
        target = self.memory.buffers[store.buffer]
        place = self.place("store", store.buffer, store.indices, store.buffer)
        there = self.place("load", source.buffer, source.indices, store.buffer)
        warp = self.warp

        def run(env: _Env) -> Generator[_Stop, None, None]:
            thread: _Thread = env[_SELF]
            at = tuple(env[var] for var in loops)
            yield number - 1, None, at
            other = thread.lane(distance, warp)
            other_registers, registers = other.memories[2], thread.memories[2]
            value = other_registers.arrays[source.buffer][there(env)]
            known = other_registers.written[source.buffer][there(env)]
            yield number, None, at
            registers.arrays[target.name][place(env)], registers.written[target.name][place(env)] = value, known

        return run

    def _load(self, name: str, indices: tuple[ir.Expr, ...], where: str) -> Callable[[_Env], Any]:
        buffer, place = self.memory.buffers[name], self.place("load", name, indices, where)
        text = f"the read of {name}[{index_text(indices)}]"

        def run(env: _Env) -> Any:  # noqa: ANN401  a numpy scalar
            thread: _Thread = env[_SELF]
            at = place(env)
            array, written = thread.access(buffer, at, "read", text)
            if not written[at]:
                element = f"{name}[{', '.join(map(str, at))}]"
                raise InterpretError(f"{where}: {element} must be written before it is read, got a read first")
            return array[at]

        return run


def _loop_steps(var: str, extent: int, body: _Steps) -> _Steps:
    """The iterations in order."""

    def run(env: _Env) -> Generator[_Stop, None, None]:
        for i in range(extent):
            env[var] = i
            yield from body(env)

    return run


def _conditional_steps(cond: Callable[[_Env], Any], body: _Steps) -> _Steps:
    """The body, if the condition holds."""

    def run(env: _Env) -> Generator[_Stop, None, None]:
        if cond(env):
            yield from body(env)

    return run


def _sequence_steps(parts: list[_Steps]) -> _Steps:
    """Statements in sequence."""

    def run(env: _Env) -> Generator[_Stop, None, None]:
        for part in parts:
            yield from part(env)

    return run


def _barrier_steps(number: int, scope: ir.BarrierScope, loops: tuple[str, ...]) -> _Steps:
    """A stop at a barrier, in the current iterations of the loops around it."""

    def run(env: _Env) -> Generator[_Stop, None, None]:
        yield number, scope, tuple(env[var] for var in loops)

    return run
