"""Estimated cycles of single operations, to rank orders; exact cycles come from the simulator."""

from __future__ import annotations

from functools import partial

from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.hardware import isa, timing
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Extended, Gemm, Load, Store, Unit, Vector


def busy_cycles(config: Config, op: MacroOp) -> int:
    """Cycles until the operation's unit can start the next one."""
    match op.instruction:
        case Load() as load:
            cycles = _padding(load) + _transfer_cycles(config, load)
            on_compute = isa.unit_of(load) == Unit.COMPUTE
            return cycles + (config.dram.read_latency if on_compute else 0)
        case Store() as store:
            entries = store.z_size * store.y_size * store.x_size
            beats = entries * config.out_entry_bytes // config.axi_bytes
            return beats * config.axi_ports * config.dram.beat_cycles + timing.STORE_SETUP
        case Gemm() as loops:
            return loops.loop0 * loops.loop1 * len(op.uops)
        case Vector() as loops:
            return loops.loop0 * loops.loop1 * len(op.uops) + timing.ISSUE_DELAY
        case Extended(plug_in=plug_in) as extended:
            field = partial(getattr, extended)
            return int(timing.extension_cycles(plug_in, field, field("loop0") * field("loop1") * len(op.uops)))
    return 1


def tail_cycles(config: Config, op: MacroOp) -> int:
    """Cycles from there to the operation's end."""
    match op.instruction:
        case Load():
            return timing.read_delay(config) + config.dram.read_latency + timing.LOAD_TAIL
        case Store():
            return config.dram.write_latency + timing.STORE_TAIL
        case Gemm():
            return timing.ISSUE_DELAY + timing.compute_depth(config)
        case Vector() | Extended():
            return timing.compute_depth(config)
    return 1


def _padding(load: Load) -> int:
    """Entries of padding."""
    rows = load.y_before + load.y_size + load.y_after
    columns = load.x_before + load.x_size + load.x_after
    return load.z_size * (rows * columns - load.y_size * load.x_size)


def _transfer_cycles(config: Config, load: Load) -> int:
    """Cycles of all bursts: of their beats, or of latencies where short bursts cannot hide them."""
    dram = config.dram
    entry = config.entry_bytes[Buffer.OUT if load.widen else load.buffer] // config.axi_bytes
    run, runs = load.x_size * entry, load.y_size * load.z_size
    if load.y_size == 1 or load.y_stride == run:
        run, runs = run * load.y_size, load.z_size
    if not run * runs:
        return 1
    bursts = -(-run // config.burst_beats) * runs
    beats = run * runs * dram.beat_cycles + bursts * dram.burst_gap
    return max(beats, (bursts * dram.read_latency + beats) // timing.outstanding_reads(config))
