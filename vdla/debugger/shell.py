# SPDX-License-Identifier: Apache-2.0
"""The commands of `vdla debug`, typed at a terminal or read from a script.

A script stops at the first command that cannot be carried out; at a terminal its error is printed.
"""

from __future__ import annotations

import cmd
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

import numpy as np

from vdla.debugger.breakpoints import instruction_number, layer_ranks
from vdla.debugger.debugger import Debugger, StepKind, Stop
from vdla.debugger.errors import DebugError
from vdla.debugger.timeline import Reason
from vdla.simulator.timing.layout import UNKNOWN
from vdla.support.arrays import Array
from vdla.support.errors import Error
from vdla.support.suggest import one_of

_SHORT = {
    "b": "break", "bt": "status", "c": "run", "continue": "run", "exit": "quit", "h": "help", "l": "list",
    "p": "print", "q": "quit", "r": "run", "rc": "reverse", "s": "step", "w": "where",
}  # fmt: skip
"""Short and other names of commands."""

_HELP = """\
break PLACE     stop at 12 (an instruction), load wgt (assembly), :41 (a line of
                the .s file), line 3 or line TEXT (of the schedule), cycle 500,
                token load->compute [N], write acc[0:4], read dram.data
breakpoints     list the breakpoints; delete N deletes one
run             on to the next breakpoint, or to the end; also continue
reverse         back to the previous breakpoint, or to the start
step [TO] [N]   on by N instructions, or to the next of the same unit, another
                line, the next token; or by cycles: step cycle 10
back [TO] [N]   the same backwards
finish          to the cycle after the end of this instruction
go PLACE        to instruction 12, cycle 500, start or end; of a network, region 2
print PLACE     acc[0], inp[0:4], wgt[1], scl[0], uop[2], out[3], raw[0], a
                tensor such as dram.out[0, 1], a private state
where           the cycle, the instruction and its line of the schedule
status          what every unit does or waits for, tokens in the queues
why [N]         what an instruction waited for, here or number N
list [N]        the assembly around here, or around instruction N
source          the loops of the schedule
regions         the programs of a network; layers those of this one
help            this list
quit            leave

In a network these are of the region where one is. There is also: break in 2
PLACE, break in all PLACE, break region 2, break layer conv1, step layer, step
region. At its end, a step or run goes on to the next region.

b, c, h, l, p, q, r, s and w are short for break, continue, help, list, print,
quit, run, step and where, rc for reverse. An empty line repeats a step.
"""
_AROUND = 4  # instructions before and after, in a list
_MOST_ELEMENTS = 256  # of an array that is printed in full


class Shell(cmd.Cmd):
    """Commands on a debugger; results go to `out`, errors too, unless a script is run."""

    prompt = "(vdla) "

    def __init__(self, debugger: Debugger, out: TextIO) -> None:
        super().__init__(stdout=out)
        self.debugger = debugger
        self._script = False

    # --- sources of commands

    def script(self, commands: Iterable[str]) -> None:
        """Carry out commands, without empty ones and comments (#); DebugError at a wrong one."""
        self._script = True
        for line in commands:
            command = line.strip()
            if command and not command.startswith("#") and self.onecmd(command):
                return

    def terminal(self) -> None:
        """Carry out what is typed, until quit or the end of input."""
        self._say(f"{self._title()}; help lists the commands")
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                self._say("")

    def _title(self) -> str:
        debugger = self.debugger
        timelines = [debugger.timeline_of(number + 1) for number in range(len(debugger.runs))]
        ends = "hangs after" if debugger.hangs else "takes"
        cycles = sum(timeline.total for timeline in timelines)
        count = sum(len(run.program) for run in debugger.runs)
        regions = f"{_count(len(debugger.runs), 'region')}, " if debugger.is_network else ""
        size = f"{regions}{count} instructions, {ends} {cycles} cycles"
        return f"{debugger.name} for {debugger.program.config.name}: {size}"

    def onecmd(self, line: str) -> bool:
        """Carry out one command; whether it was the last."""
        if line == "EOF":
            self._say("")
            return True
        name, _, rest = line.strip().partition(" ")
        try:
            return bool(super().onecmd(f"{_SHORT.get(name, name)} {rest}".strip()))
        except Error as error:
            if self._script:
                raise
            self._say(str(error))
            return False

    def emptyline(self) -> bool:
        """Repeat a step, as debuggers do; other commands are not repeated."""
        last = self.lastcmd.split(" ")[0]
        return self.onecmd(self.lastcmd) if _SHORT.get(last, last) in ("step", "back", "run", "reverse") else False

    def default(self, line: str) -> None:
        """An unknown command."""
        raise DebugError(f"debug: a command must be {one_of(line.split()[0], self.commands())}")

    def commands(self) -> list[str]:
        """The names of the commands."""
        return [name.removeprefix("do_") for name in self.get_names() if name.startswith("do_")]

    def completenames(self, text: str, *_: object) -> list[str]:
        """The commands that begin with a text."""
        return [f"{name} " for name in self.commands() if name.startswith(text)]

    def _say(self, text: str) -> None:
        self.stdout.write(f"{text}\n")

    # --- breakpoints

    def do_break(self, text: str) -> None:
        """Set a breakpoint."""
        self._say(str(self.debugger.break_at(text)))

    def do_breakpoints(self, text: str) -> None:
        """List the breakpoints."""
        _refuse("breakpoints", text)
        self._say("\n".join(map(str, self.debugger.breakpoints)) or "no breakpoints")

    def do_delete(self, text: str) -> None:
        """Delete a breakpoint."""
        self.debugger.delete(_number("delete", text))

    # --- the way through the run

    def do_run(self, text: str) -> None:
        """Go on to the next breakpoint."""
        _refuse("run", text)
        self._stopped(self.debugger.run())

    def do_reverse(self, text: str) -> None:
        """Go back to the previous breakpoint."""
        _refuse("reverse", text)
        self._stopped(self.debugger.reverse())

    def do_step(self, text: str) -> None:
        """Go on by steps."""
        self._stepped("step", text, self.debugger.step)

    def do_back(self, text: str) -> None:
        """Go back by steps."""
        self._stepped("back", text, self.debugger.back)

    def do_finish(self, text: str) -> None:
        """Go to the cycle after the end of the instruction."""
        _refuse("finish", text)
        instruction = self.debugger.instruction
        stop = self.debugger.finish()
        if instruction is not None:
            end = int(self.debugger.timeline.ends[instruction])
            when = "never ends" if end == UNKNOWN else f"ended in cycle {end}"
            self._say(f"instruction {instruction} {when}")
        self._stopped(stop)

    def do_go(self, text: str) -> None:
        """Go to a place."""
        words = text.split()
        match words:
            case ["start"]:
                self._stopped(self.debugger.go_to_cycle(0))
            case ["end"]:
                self._stopped(self.debugger.go_to_cycle(self.debugger.total_cycles))
            case ["cycle", number]:
                self._stopped(self.debugger.go_to_cycle(_number("go cycle", number)))
            case ["region", number]:
                self._stopped(self.debugger.go_to_region(_number("go region", number)))
            case _:
                self._stopped(self.debugger.go_to(instruction_number(text, self.debugger.program)))

    def _stepped(self, name: str, text: str, move: Callable[[str, int], Stop]) -> None:
        words = text.split()
        count = _number(name, words.pop()) if words and words[-1].isdecimal() else 1
        self._stopped(move(" ".join(words) or StepKind.INSTRUCTION.value, count))

    def _stopped(self, stop: Stop) -> None:
        hit = "".join(f"breakpoint {number}, " for number in stop.breakpoints)
        self._say(hit + self._where())

    # --- what is there

    def do_where(self, text: str) -> None:
        """Print where the run stands."""
        _refuse("where", text)
        self._say(self._where())
        instruction = self.debugger.instruction
        if self.debugger.layer is not None:
            self._say(f"layer: {self.debugger.layer}")
        line = self._line(instruction)
        if line:
            self._say(f"from: {line}")
        if instruction is not None and self.debugger.timeline.path[instruction]:
            self._say("on the critical path")

    def do_status(self, text: str) -> None:
        """Print what the units do."""
        _refuse("status", text)
        self._say(self.debugger.status())

    def do_print(self, text: str) -> None:
        """Print contents."""
        value = self.debugger.value(text)
        self._say(f"{text}: {value.dtype}{list(value.shape)}")
        self._say(_array_text(value))

    def do_why(self, text: str) -> None:
        """Print what an instruction waited for."""
        debugger = self.debugger
        here = instruction_number(text, debugger.program) if text else debugger.instruction
        if here is None:
            raise DebugError("debug: an instruction must have started, got none; write why N")
        start = int(debugger.timeline.starts[here])
        when = "never starts" if start == UNKNOWN else f"starts in cycle {start}, after"
        self._say(f"{here}: {debugger.assembly(here)}\n{when}")
        for reason in debugger.reasons(here):
            self._say(f"  {_reason_text(reason)}")
        waits = debugger.waits(here)
        if waits:
            self._say("cycles of its unit: " + ", ".join(f"{name} {cycles}" for name, cycles in waits.items()))

    def do_list(self, text: str) -> None:
        """Print the assembly around an instruction."""
        debugger = self.debugger
        here = instruction_number(text, debugger.program) if text else debugger.instruction or 0
        stops = {
            int(debugger.timeline.order[rank])
            for one in debugger.breakpoints
            for number, (_, rank) in one.places
            if number + 1 == debugger.region and rank >= 0
        }
        for k in range(max(0, here - _AROUND), min(len(debugger.program), here + _AROUND + 1)):
            marks = ("*" if k in stops else " ") + (">" if k == debugger.instruction else " ")
            self._say(f"{marks} {k:>5}  {debugger.assembly(k)}")

    def do_source(self, text: str) -> None:
        """Print the loops of the schedule."""
        _refuse("source", text)
        program, here = self.debugger.program, self.debugger.instruction
        current = -1 if here is None else int(program.source_of[here])
        lines = [f"{'>' if k == current else ' '} {k:>4}  {line}" for k, line in enumerate(program.source_lines)]
        self._say("\n".join(lines) or "no schedule in this program")

    def do_regions(self, text: str) -> None:
        """Print the programs of a network."""
        _refuse("regions", text)
        debugger = self.debugger
        for number, run in enumerate(debugger.runs, 1):
            mark = ">" if number == debugger.region else " "
            cycles = debugger.timeline_of(number).total
            size = f"{len(run.program)} instructions, {cycles} cycles"
            layers = f": {', '.join(run.layers)}" if run.layers else ""
            self._say(f"{mark} {number:>4}  {run.region or debugger.name}, {size}{layers}")

    def do_layers(self, text: str) -> None:
        """Print the layers of the program, and where they begin."""
        _refuse("layers", text)
        debugger, run = self.debugger, self.debugger.runs[self.debugger.region - 1]
        timeline, lines = debugger.timeline, []
        for rank in layer_ranks(run, timeline).tolist():
            instruction = int(timeline.order[rank])
            name = run.layers[run.layer_of[instruction]]
            mark = ">" if name == debugger.layer else " "
            lines.append(f"{mark} {name}: from instruction {instruction}, cycle {timeline.starts[instruction]}")
        self._say("\n".join(lines) or "no layers in this program")

    def do_help(self, text: str) -> None:
        """Print the list of commands."""
        self._say(_HELP.rstrip())

    def do_quit(self, text: str) -> bool:
        """Leave."""
        return True

    def _where(self) -> str:
        debugger, here = self.debugger, self.debugger.instruction
        end = ", the start" if here is None and not debugger.cycle else ""
        if debugger.cycle == debugger.total_cycles:
            end = ", where it hangs" if debugger.hangs else ", the end"
        region = f"region {debugger.region}, " if debugger.is_network else ""
        place = f"{region}cycle {debugger.cycle} of {debugger.total_cycles}{end}"
        return place if here is None or end else f"{place}, instruction {here}: {debugger.assembly(here)}"

    def _line(self, instruction: int | None) -> str:
        source = UNKNOWN if instruction is None else int(self.debugger.program.source_of[instruction])
        return "" if source < 0 else f"line {source}: {self.debugger.program.source_lines[source].strip()}"


def commands_of(text: str) -> Iterator[str]:
    """The commands of a text, which semicolons or ends of lines part."""
    return (part for line in text.splitlines() for part in line.split(";"))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _number(where: str, text: str) -> int:
    if not text.isdecimal():
        raise DebugError(f"debug: {where} must have a number, got {text or 'nothing'}")
    return int(text)


def _refuse(name: str, text: str) -> None:
    if text:
        raise DebugError(f"debug: {name} must be written alone, got {text}")


def _reason_text(reason: Reason) -> str:
    return f"{reason.text}: {'never' if reason.ready == UNKNOWN else f'cycle {reason.ready}'}"


def _array_text(value: Array) -> str:
    return np.array2string(value, max_line_width=100, threshold=_MOST_ELEMENTS, edgeitems=3)
