"""The primitive that tiles two loops: two splits and a reorder."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.schedule.reorder import reorder
from vdla.compiler.schedule.split import split

TileNames = tuple[str, str, str, str]


def tile(
    fn: ir.Function, y: str, x: str, y_factor: int, x_factor: int, names: TileNames | None = None
) -> tuple[ir.Function, TileNames]:
    """Tile two nested loops by `y_factor` x `x_factor` iterations.

    for i in range(6):                  for i_o in range(3):
        for j in range(8):                  for j_o in range(2):
            block c(vi=i, vj=j): ... ->         for i_i in range(2):
                                                    for j_i in range(4):
                                                        block c(vi=i_o * 2 + i_i, vj=j_o * 4 + j_i)

    The four loop names, in this order, are as given, else those of the splits.
    """
    where = f"tile of {y} and {x}"
    if names is not None and (not isinstance(names, tuple | list) or len(names) != 4):
        raise ScheduleError(f"{where}: names must be four different names, got {names}")
    y_names, x_names = (None, None) if names is None else ((names[0], names[2]), (names[1], names[3]))
    try:
        fn, (y_outer, y_inner) = split(fn, y, y_factor, names=y_names)
        fn, (x_outer, x_inner) = split(fn, x, x_factor, names=x_names)
        return reorder(fn, y_outer, x_outer, y_inner, x_inner), (y_outer, x_outer, y_inner, x_inner)
    except ScheduleError as error:
        raise ScheduleError(f"{where}: {error}") from error
