# SPDX-License-Identifier: Apache-2.0
"""Programs of depthwise layers for the instructions of depthwise.py."""

import vdla
from vdla import te
from vdla.isa import Buffer, Emit, Load, MicroOp, Store, isa_of

SHARES = (1, 2, 4)  # a strip fills a half of the buffers, or less: it is stored earlier


def program(layer, config):
    """Programs of a layer, of which the fastest is wanted; a LayerError says why there is none."""
    types = {"dtype": config.inp_dtype, "weight_dtype": config.wgt_dtype, "raw": False}
    layer.require("depthwise_convolution", kernel=3, strides={1, 2}, pads=1, dilations=1)
    layer.require("depthwise_convolution", batch=config.batch, **types)
    if config.block_in != config.block_out or layer.options["channels"] % config.block_out:
        raise vdla.LayerError(f"channels must fill blocks of {config.block_out}, got {layer.options['channels']}")
    return [Strips(layer, config, share, by_host).program() for by_host in (True, False) for share in SHARES]


class Strips:
    """A layer in strips: some rows of a block of channels, or all rows of several blocks.

    Strips alternate between two halves of the buffers. The weights of `group` blocks fill whole
    entries. The column of padding behind each row comes from the host or from LOAD.
    """

    def __init__(self, layer, config, share, by_host):
        self.layer, self.config, self.stride = layer, config, layer.options["strides"]
        self.fill = layer.options["fill"]
        _, channels, self.height, self.width = layer.inputs[0].shape
        _, _, self.rows_out, self.width_out = layer.output.shape
        self.blocks, self.across = channels // config.block_out, self.width + 1
        self.stored = self.across if by_host else self.width  # columns in memory
        self.group, self.room = config.block_in, (config.inp_depth - self.across) // 2
        self.padding = 2 * self.room  # a row of padding lies behind both halves
        room, room_out = self.room // share, min(config.out_depth, config.acc_depth) // 2 // share
        images = min(room // (self.across * self.height), room_out // (self.rows_out * self.width_out))
        self.many = next((n for n in (8, 4, 2) if n <= min(images, self.group, self.blocks)), 1)  # blocks of a strip
        most = min(room // self.across, (room_out // self.width_out - 1) * self.stride)
        self.rows = self.height if images else max(2, most // self.stride * self.stride)
        if self.across > min(128, self.room // 2):
            raise vdla.LayerError(f"a row must fit the buffers and the line buffer, got {self.width} pixels")
        self.strips = [(b, y) for b in range(0, self.blocks, self.many) for y in range(0, self.height, self.rows)]
        names = ("dw", "dw_taps", "dw_clear")
        self.step, self.load, self.clear = (isa_of(config).format_named(name).cls for name in names)
        self.builder = vdla.ProgramBuilder(config, "depthwise")

    def program(self):
        """Each strip is loaded while the one before is computed."""
        builder, result = self.builder, self.tensors()
        builder.load_micro_ops([MicroOp(), *(self.pixel(r, c) for r in range(self.stride) for c in range(self.across))])
        builder.add([self.clear(loop0=self.across, acc0=1)])
        fill = {"pad_value": self.fill, "y_size": 0, "y_after": 1}
        builder.add([Load(Buffer.INP, sram=self.padding, x_size=self.across, **fill)])
        for number, strip in enumerate(self.strips):
            self.load_strip(number, *strip)
            if number > 0:
                self.compute_strip(number - 1, *self.strips[number - 1])
        self.compute_strip(number, *strip)
        return builder.finished(result)

    def tensors(self):
        """Pixels and results in blocks of channels, as other layers have them without padding."""
        (data, weight, scale), lanes = self.layer.inputs, self.config.block_out

        def pixel(b, y, x, n, o):
            return te.select(x < self.width, data[n, b * lanes + o, y, x], self.fill)

        def tap(v, o):
            return te.select(v < 9 * self.blocks, weight[v // 9 * lanes + o, v % 9 // 3, v % 3], 0)

        pixels = (self.blocks, self.height, self.stored, self.config.batch, lanes)
        self.builder.input(te.compute(pixels, pixel, "pixels"))
        vectors = -(-9 * self.blocks // self.group) * self.group
        self.builder.input(te.compute((vectors, lanes), tap, "taps"), "weight")
        self.builder.input(te.compute((self.blocks, lanes), lambda b, o: scale[b * lanes + o], "scales"), "weight")
        results = self.builder.output("results", (self.blocks, self.rows_out, self.width_out, self.config.batch, lanes))
        return te.compute(self.layer.output.shape, lambda n, c, y, x: results[c // lanes, y, x, n, c % lanes], "plain")

    def pixel(self, row, column):
        """The step of a pixel; the last row and column of a result complete it."""
        done = row == self.stride - 1 and column > 0 and (column - 1) % self.stride == 0
        acc = max(column - 1, 0) // self.stride
        return MicroOp(acc=acc, src=row * self.across + column, wgt=column, last=int(done))

    def beats(self, buffer):
        return self.config.entry_bytes[buffer] // self.config.axi_bytes

    def load_strip(self, number, block, y):
        """The rows of a strip; now and then weights and scales."""
        waits = ["compute"] if number >= 2 else []  # the strip before the last had this half
        if y == 0 and block % self.group == 0:
            many, place = min(self.group, self.blocks - block), block % (2 * self.group)
            taps = {"sram": place * 9 // self.group, "x_size": -(-9 * many // self.group)}
            dram = block * 9 // self.group * self.beats(Buffer.WGT)
            self.builder.add([Load(Buffer.WGT, dram=dram, **taps)], "taps", waits=waits)
            scales = Load(Buffer.SCL, sram=place, dram=block * self.beats(Buffer.SCL), x_size=many)
            self.builder.add([scales], "scales")
            waits = []
        line, count = self.stored * self.beats(Buffer.INP), min(self.rows, self.height - y)
        sizes = {"z_size": min(self.many, self.blocks - block), "y_size": count, "x_size": self.stored}
        sizes |= {"x_after": 1, "pad_value": self.fill} if self.stored < self.across else {}
        dram, strides = (block * self.height + y) * line, {"z_stride": self.height * line, "y_stride": line}
        load = Load(Buffer.INP, sram=number % 2 * self.room, dram=dram, **sizes, **strides)
        self.builder.add([load], "pixels", waits=waits, signals=["compute"])

    def compute_strip(self, number, block, y):
        """The steps of a strip, and what stores its results."""
        base, steps, done = number % 2 * self.room, [], 0
        before, later = ["store"] * (number >= 2), ["load"] * (number + 2 < len(self.strips))
        blocks = range(block, min(block + self.many, self.blocks))
        for place, index in enumerate(blocks):
            if y == 0:
                steps.append(self.load(loop0=9, acc0=1, wgt=index % (2 * self.group) * 9, wgt0=1))
            if self.fill and not steps[1:] and number == 0:  # both rows of the line buffer, and the window
                steps += [self.step(uop_begin=1, uop_end=1 + self.across, src=self.padding)] * 2
            src, out = base + place * self.across * self.height, base + place * self.rows_out * self.width_out
            block_steps, done = self.rows_of(index, y, src, out)
            steps += block_steps
        self.builder.add(steps, waits=["load", *before], signals=[*later, "store"])
        dram = (block * self.rows_out + self.completed(y)) * self.width_out
        store = Store(sram=base, dram=dram * self.beats(Buffer.OUT), x_size=len(blocks) * done * self.width_out)
        self.builder.add([store], "results", waits=["compute"], signals=["compute"] * bool(later))

    def completed(self, y):
        """The rows of results that the rows above y complete."""
        return y // self.stride - (self.stride == 1 and y > 0)

    def rows_of(self, block, y, src, out):
        """The steps of a block in a strip, and how many rows of results they complete."""
        ends = [1 + row * self.across for row in range(self.stride + 1)]
        emit = {"emit": Emit.REQUANT, "scl": block % (2 * self.group), "clip_lo": -128, "clip_hi": 127}
        count, row, done, steps = min(self.rows, self.height - y), 0, 0, []

        def run(first, end, at, **fields):
            steps.append(self.step(uop_begin=ends[first], uop_end=ends[end], src=at - first * self.across, **fields))

        if y == 0:  # above it is padding
            if self.fill:
                run(0, 1, self.padding)
                run(0, 1, src)
            else:
                run(0, 1, src, top=1)
            row = 1
            if self.stride == 2 and count > 1:
                run(1, 2, src + self.across, out=out, **emit)
                row, done = 2, 1
        turns = (count - row) // self.stride
        if turns:
            loops = {"loop0": turns, "acc0": self.width_out, "src0": self.stride * self.across}
            run(0, self.stride, src + row * self.across, out=out + done * self.width_out, **loops, **emit)
            row, done = row + turns * self.stride, done + turns
        if row < count:
            run(0, 1, src + row * self.across)
        if y + count == self.height and self.completed(y) + done < self.rows_out:  # below it is padding
            run(self.stride - 1, self.stride, self.padding, out=out + done * self.width_out, **emit)
            done += 1
        return steps, done
