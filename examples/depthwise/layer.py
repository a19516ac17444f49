# SPDX-License-Identifier: Apache-2.0
"""Programs of depthwise layers for the instructions of depthwise.py."""

import vdla
from vdla import te
from vdla.isa import Buffer, Emit, Load, MicroOp, Store, isa_of

SHARES = (1, 2, 4)  # a strip fills a half of the buffers, or less: it is stored earlier


def program(layer, config):
    """Programs of a layer, of which the fastest is wanted; a LayerError says why there is none."""
    types = {"dtype": config.inp_dtype, "weight_dtype": config.wgt_dtype, "raw": False}
    layer.require("depthwise_convolution", batch=config.batch, dilations=1, **types)
    if config.block_in != config.block_out:
        raise vdla.LayerError(f"block_in must be block_out, {config.block_out}, got {config.block_in}")
    options = layer.options
    if (options["kernel"], options["pads"]) == (3, 1) and options["strides"] in (1, 2):
        return [Strips(layer, config, share, by_host).program() for by_host in (True, False) for share in SHARES]
    return [Passes(layer, config).program()]


def pixels_of(layer, config, height, across):
    """Pixels in blocks of channels, as other layers have them, with padding behind each row."""
    data, lanes = layer.inputs[0], config.block_out
    _, channels, _, width = data.shape

    def pixel(b, y, x, n, o):
        inside = (b * lanes + o < channels) & (x < width)
        return te.select(inside, data[n, b * lanes + o, y, x], layer.options["fill"])

    return te.compute((-(-channels // lanes), height, across, config.batch, lanes), pixel, "pixels")


def scales_of(layer, config):
    """The scales of results, an entry for each block."""
    scale, lanes = layer.inputs[2], config.block_out
    (channels,) = scale.shape

    def entry(b, o):
        return te.select(b * lanes + o < channels, scale[b * lanes + o], 0)

    return te.compute((-(-channels // lanes), lanes), entry, "scales")


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
        self.blocks, self.across = -(-channels // config.block_out), self.width + 1
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
        weight, lanes = self.layer.inputs[1], self.config.block_out

        def tap(v, o):
            inside = v // 9 * lanes + o < weight.shape[0]
            return te.select(inside, weight[v // 9 * lanes + o, v % 9 // 3, v % 3], 0)

        self.builder.input(pixels_of(self.layer, self.config, self.height, self.stored))
        vectors = -(-9 * self.blocks // self.group) * self.group
        self.builder.input(te.compute((vectors, lanes), tap, "taps"), "weight")
        self.builder.input(scales_of(self.layer, self.config), "weight")
        results = self.builder.output("results", (self.blocks, self.rows_out, self.width_out, self.config.batch, lanes))
        return te.compute(self.layer.output.shape, lambda n, c, y, x: results[c // lanes, y, x, n, c % lanes], "plain")

    def pixel(self, row, column):
        """The step of a pixel; the last row and column of a result complete it."""
        done = row == self.stride - 1 and column > 0 and (column - 1) % self.stride == 0
        acc = max(column - 1, 0) // self.stride
        return MicroOp(acc=acc, src=row * self.across + column, wgt=column, first=1, last=int(done))

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
                steps += [self.step(init=1, uop_begin=1, uop_end=1 + self.across, src=self.padding)] * 2
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
            kernel = {"init": 1, "uop_begin": ends[first], "uop_end": ends[end]}
            steps.append(self.step(**kernel, src=at - first * self.across, **fields))

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


class Taps:
    """An axis of a kernel in groups of three taps, each of one phase of the stride.

    Tap `first + stride * k` of a group multiplies pixel `stride * (i + begin + k) + phase` for
    result i; taps before `skip` or from `end` on are no taps, or those of the group before.
    """

    def __init__(self, kernel, stride, before):
        self.stride, self.groups = stride, []
        for phase in range(stride):
            taps = [tap for tap in range(kernel) if (tap - before) % stride == phase]
            places = [(tap - before) // stride for tap in taps]
            for at in range(0, len(taps), 3):
                start = max(0, min(at, len(taps) - 3))
                self.groups.append((phase, places[start], taps[start], at - start, min(3, len(taps) - start)))

    @property
    def begin(self):
        """The first place that a group reads."""
        return min(begin for _, begin, *_ in self.groups)

    @property
    def end(self):
        """One past the last place that a group reads."""
        return max(begin for _, begin, *_ in self.groups) + 3

    def tap(self, group, k):
        """The tap at k of a group, and whether it is one, as expressions."""
        tap, skip, end = (self._of(group, at) for at in (2, 3, 4))
        return tap + self.stride * k, (k >= skip) & (k < end)

    def _of(self, group, at):
        """A number of a group by its index: differences to those of the groups before."""
        values = [numbers[at] for numbers in self.groups]
        result = te.const(values[0], "int32")
        for index in range(1, len(values)):
            result += (values[index] - values[index - 1]) * te.clip(group - index + 1, 0, 1)
        return result


class Passes:
    """A layer of any kernel: a pass over a strip for each 3x3 taps of it, which adds to its sums.

    A strip is some rows of results of a block of channels, and all pixels that they need. With
    strides, a pass takes each second pixel of each second row. In the buffers of sums and results,
    two rows that complete no result come first; behind each row is a place for sums of no result.
    """

    def __init__(self, layer, config):
        self.layer, self.config, self.fill = layer, config, layer.options["fill"]
        (kernel, strides), pads = (pair(layer.options[name]) for name in ("kernel", "strides")), layer.options["pads"]
        top, left = pads[:2] if isinstance(pads, tuple) else (pads, pads)
        self.down, self.along = Taps(kernel[0], strides[0], top), Taps(kernel[1], strides[1], left)
        self.passes = [(r, c) for r in range(len(self.down.groups)) for c in range(len(self.along.groups))]
        _, channels, self.height, self.width = layer.inputs[0].shape
        _, _, self.rows_out, self.width_out = layer.output.shape
        self.blocks = -(-channels // config.block_out)
        self.before = max(0, -self.along.begin - 2)  # columns of padding; two more are those behind the row above
        shared = max(0, -self.along.begin - self.before)
        behind = max(-(-self.width // strides[1]) + shared, self.width_out + self.along.end - 1)
        self.columns = self.before + behind
        self.across = strides[1] * self.columns
        self.halo = self.down.end - self.down.begin - 1
        self.room = (config.inp_depth - self.across) // 2
        self.pitch = self.width_out + 1
        results = min(config.out_depth // 2, config.acc_depth) // self.pitch - 2
        self.rows = min(self.rows_out, self.room // (self.across * strides[0]) - self.halo, results)
        self.vectors = -(-9 * len(self.passes) // config.block_in) * config.block_in
        entries = self.vectors // config.block_in
        if self.rows < 1 or self.columns > min(128, config.acc_depth) or 2 * entries > config.wgt_depth:
            raise vdla.LayerError(f"a row must fit the buffers and the line buffer, got {self.width} pixels")
        self.rows = -(-self.rows_out // -(-self.rows_out // self.rows))  # strips of about one size
        self.strips = [(b, y) for b in range(self.blocks) for y in range(0, self.rows_out, self.rows)]
        names = ("dw", "dw_taps", "dw_clear")
        self.step, self.load, self.clear = (isa_of(config).format_named(name).cls for name in names)
        self.builder = vdla.ProgramBuilder(config, "depthwise")

    def program(self):
        """Each strip is loaded while the one before is computed."""
        builder, result = self.builder, self.tensors()
        kernels = [kernel for begins in (True, False) for kernel in self.kernels(begins)]
        builder.load_micro_ops([MicroOp(), *(step for kernel in kernels for step in kernel)])
        builder.add([self.clear(loop0=self.columns, acc0=1)])
        fill = {"pad_value": self.fill, "y_size": 0, "y_after": 1}
        builder.add([Load(Buffer.INP, sram=2 * self.room, x_size=self.across, **fill)])
        for number, strip in enumerate(self.strips):
            self.load_strip(number, *strip)
            if number > 0:
                self.compute_strip(number - 1, *self.strips[number - 1])
        self.compute_strip(number, *strip)
        return builder.finished(result)

    def tensors(self):
        """Pixels and results as other layers have them; nine taps for each pass over a block."""
        weight, lanes, wide = self.layer.inputs[1], self.config.block_out, len(self.along.groups)

        def tap(b, v, o):
            y, in_rows = self.down.tap(v // 9 // wide, v % 9 // 3)
            x, in_columns = self.along.tap(v // 9 % wide, v % 3)
            inside = (b * lanes + o < weight.shape[0]) & (v < 9 * len(self.passes)) & in_rows & in_columns
            return te.select(inside, weight[b * lanes + o, y, x], 0)

        self.builder.input(pixels_of(self.layer, self.config, self.height, self.width))
        self.builder.input(te.compute((self.blocks, self.vectors, lanes), tap, "taps"), "weight")
        self.builder.input(scales_of(self.layer, self.config), "weight")
        results = self.builder.output("results", (self.blocks, self.rows_out, self.width_out, self.config.batch, lanes))
        return te.compute(self.layer.output.shape, lambda n, c, y, x: results[c // lanes, y, x, n, c % lanes], "plain")

    def kernels(self, begins):
        """The steps of a row for each group of columns; sums begin in the first pass."""
        for _, begin, *_ in self.along.groups:
            places = [column - self.before - begin - 2 for column in range(self.columns)]
            yield [self.pixel(column, place, begins) for column, place in enumerate(places)]

    def pixel(self, column, place, begins):
        """The step of a pixel, which completes the result at a place of the row, or none."""
        src = column * self.along.stride
        if 0 <= place < self.width_out:
            return MicroOp(acc=place, src=src, wgt=column, first=int(begins), last=1)
        return MicroOp(acc=self.width_out, src=src, wgt=column, first=1)

    def beats(self, buffer):
        return self.config.entry_bytes[buffer] // self.config.axi_bytes

    def load_strip(self, number, block, y):
        """The pixels of a strip with padding around, and the weights and scales of a block."""
        waits = ["compute"] if number >= 2 else []  # the strip before the last had this half
        if y == 0:
            entries = self.vectors // self.config.block_in
            place, dram = block % 2 * entries, block * entries * self.beats(Buffer.WGT)
            self.builder.add([Load(Buffer.WGT, sram=place, dram=dram, x_size=entries)], "taps", waits=waits)
            dram = block * self.beats(Buffer.SCL)
            self.builder.add([Load(Buffer.SCL, sram=block % 2, dram=dram, x_size=1)], "scales")
            waits = []
        count, line = min(self.rows, self.rows_out - y), self.width * self.beats(Buffer.INP)
        top = self.down.stride * (y + self.down.begin)
        bottom = top + self.down.stride * (count + self.halo)
        first, last = min(max(top, 0), self.height), max(min(bottom, self.height), 0)
        before = self.along.stride * self.before
        sizes = {"x_size": self.width, "x_before": before, "x_after": self.across - self.width - before}
        sizes |= {"y_size": last - first}
        sizes |= {"y_before": first - top, "y_after": bottom - last, "pad_value": self.fill, "y_stride": line}
        load = Load(Buffer.INP, sram=number % 2 * self.room, dram=(block * self.height + first) * line, **sizes)
        self.builder.add([load], "pixels", waits=waits, signals=["compute"])

    def compute_strip(self, number, block, y):
        """The passes of a strip, and what stores its results."""
        base, count, steps = number % 2 * self.room, min(self.rows, self.rows_out - y), []
        before, later = ["store"] * (number >= 2), ["load"] * (number + 2 < len(self.strips))
        out = number % 2 * (self.config.out_depth // 2)
        for at, (row, column) in enumerate(self.passes):
            taps = block % 2 * self.vectors + 9 * at
            steps.append(self.load(loop0=9, acc0=1, wgt=taps, wgt0=1))
            if self.fill and number == at == 0:  # both rows of the line buffer, and the window
                steps += [self.step(init=1, uop_begin=1, uop_end=1 + self.columns, src=2 * self.room)] * 2
            fields = self.emitting(block, out) if at + 1 == len(self.passes) else {}
            steps.append(self.pass_over(base, count, row, column, begins=at == 0, **fields))
        self.builder.add(steps, waits=["load", *before], signals=[*later, "store"])
        line = self.width_out * self.beats(Buffer.OUT)
        dram, place = (block * self.rows_out + y) * line, out + 2 * self.pitch
        stores = [
            Store(sram=place + row * self.pitch, dram=dram + row * line, x_size=self.width_out) for row in range(count)
        ]
        self.builder.add(stores, "results", waits=["compute"], signals=["compute"] * bool(later))

    def emitting(self, block, out):
        return {"emit": Emit.REQUANT, "out": out, "scl": block % 2, "clip_lo": -128, "clip_hi": 127}

    def pass_over(self, base, count, row, column, begins, **fields):
        """The steps of two rows before the strip's results, and of those that complete them."""
        (phase_y, begin_y, *_), (phase_x, *_) = self.down.groups[row], self.along.groups[column]
        src = base + (self.down.stride * (begin_y - self.down.begin) + phase_y) * self.across + phase_x
        first = 1 + (column + (0 if begins else len(self.along.groups))) * self.columns
        loops = {"loop0": count + 2, "acc0": self.pitch, "src0": self.down.stride * self.across}
        return self.step(init=1, uop_begin=first, uop_end=first + self.columns, src=src, **loops, **fields)


def pair(value):
    """An option of two axes."""
    return value if isinstance(value, tuple) else (value, value)
