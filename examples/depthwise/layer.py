# SPDX-License-Identifier: Apache-2.0
"""Programs of depthwise layers for the instructions of depthwise.py."""

from itertools import product
from math import prod

import vdla
from vdla import te
from vdla.isa import Buffer, Emit, Load, MicroOp, Store, isa_of

SHARES = (1, 2, 4)  # a strip fills a half of the buffers, or less: it is stored earlier
LONGEST = 512  # columns of the line buffer
COLUMNS = 5  # of the window, whose three rows have as many taps


def program(layer, config):
    """Programs of a layer, of which the fastest is wanted; a LayerError says why there is none."""
    if layer.name == "scaling":
        return [Scaling(layer, config).program()]
    types = {"dtype": config.inp_dtype, "weight_dtype": config.wgt_dtype, "raw": False}
    layer.require("depthwise_convolution", batch=config.batch, dilations=1, **types)
    if config.block_in != config.block_out:
        raise vdla.LayerError(f"block_in must be block_out, {config.block_out}, got {config.block_in}")
    options = layer.options
    if (options["kernel"], options["pads"]) == (3, 1) and options["strides"] in (1, 2):
        options = product((True, False), SHARES, (False, True))
        strips = [Strips(layer, config, *option) for option in options]
        return [item.program() for item in strips if item.by_rows is not None]
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


def taps_of(load, columns, wgt):
    """Loads the taps of the last columns of the window; those of the others stay zero."""
    rows = {"loop0": 3, "acc0": COLUMNS, "wgt0": columns}
    return load(acc=COLUMNS - columns, wgt=wgt, loop1=columns, acc1=1, wgt1=1, **rows)


class Strips:
    """A layer in strips: some rows of a block of channels, or all rows of several blocks.

    With `by_rows`, the same rows of all blocks come one after another, as results of products do;
    it is None where the line buffer has no columns for each block.

    Strips alternate between two halves of the buffers. The weights of `group` blocks fill whole
    entries. The column of padding behind each row comes from the host, or from LOAD as the row of
    padding behind an image does: a LOAD with padding waits for the one before.
    """

    def __init__(self, layer, config, by_host, share, by_rows):
        self.layer, self.config, self.stride = layer, config, layer.options["strides"]
        self.fill = layer.options["fill"]
        _, channels, self.height, self.width = layer.inputs[0].shape
        _, _, self.rows_out, self.width_out = layer.output.shape
        self.blocks, self.across = -(-channels // config.block_out), self.width + 1
        self.stored = self.across if by_host else self.width  # columns in memory
        self.group, self.room = config.block_in, (config.inp_depth - self.across * by_host) // 2
        self.padding = 2 * self.room if by_host else None  # a row of padding behind both halves, or behind images
        self.below = int(not by_host and self.completed(self.height) < self.rows_out)
        self.plane = self.across * (self.height + self.below)
        self.edge = {"top": 1, "fill": self.fill}  # of a step below padding
        self.room_out = min(config.out_depth, config.acc_depth) // 2
        room, room_out = self.room // share, self.room_out // share
        images = min(room // self.plane, room_out // (self.rows_out * self.width_out))
        self.many = next((n for n in (8, 4, 2) if n <= min(images, self.group, self.blocks)), 1)  # blocks of a strip
        most = min(room // self.across - self.below, (room_out // self.width_out - 1) * self.stride)
        self.rows = self.height if images else max(2, most // self.stride * self.stride)
        if self.across > min(LONGEST, config.acc_depth, self.room // 2):
            raise vdla.LayerError(f"a row must fit the buffers and the line buffer, got {self.width} pixels")
        ys, columns = range(0, self.height, self.rows), min(LONGEST, config.acc_depth)
        fits = self.blocks <= 2 * self.group and self.blocks * self.across <= columns and len(ys) > 1
        self.by_rows = by_rows if fits or not by_rows else None
        self.strips = [(b, y) for b in range(0, self.blocks, self.many) for y in ys]
        if by_rows:
            self.strips.sort(key=lambda strip: strip[1])
        names = ("dw", "dw_taps", "dw_clear")
        self.step, self.load, self.clear = (isa_of(config).format_named(name).cls for name in names)
        self.builder = vdla.ProgramBuilder(config, "depthwise")

    def program(self):
        """Each strip is loaded while the one before is computed."""
        builder, result = self.builder, self.tensors()
        pixels = [self.pixel(r, c) for r in range(self.stride) for c in range(self.across)]
        builder.load_micro_ops([MicroOp(), *pixels, MicroOp(first=1)])
        columns = self.across * (self.blocks if self.by_rows else 1)
        builder.add([self.clear(loop0=columns, acc0=1), self.clear(loop0=3 * COLUMNS, src0=1)])
        if self.padding is not None:
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
        sizes |= {"x_after": self.across - self.stored, "y_after": self.below * (y + count == self.height)}
        sizes |= {"pad_value": self.fill} if sizes["x_after"] or sizes["y_after"] else {}
        dram, strides = (block * self.height + y) * line, {"z_stride": self.height * line, "y_stride": line}
        load = Load(Buffer.INP, sram=number % 2 * self.room, dram=dram, **sizes, **strides)
        self.builder.add([load], "pixels", waits=waits, signals=["compute"])

    def compute_strip(self, number, block, y):
        """The steps of a strip, and what stores its results."""
        base, base_out, steps, done = number % 2 * self.room, number % 2 * self.room_out, [], 0
        before, later = ["store"] * (number >= 2), ["load"] * (number + 2 < len(self.strips))
        blocks = range(block, min(block + self.many, self.blocks))
        for place, index in enumerate(blocks):
            if y == 0 or self.by_rows:
                steps.append(taps_of(self.load, 3, index % (2 * self.group) * 9))
            if self.fill and not steps[1:] and number == 0:  # the column of padding to the left, in the window
                first, last = 1 + self.stride * self.across, self.across - 1
                pixel = {"uop_begin": first, "uop_end": first + 1, "src": base + last, "wgt": last}
                steps.append(self.step(init=1, **pixel, **self.edge))
            src, out = base + place * self.plane, base_out + place * self.rows_out * self.width_out
            block_steps, done = self.rows_of(index, y, src, out)
            steps += block_steps
        self.builder.add(steps, waits=["load", *before], signals=[*later, "store"])
        dram = (block * self.rows_out + self.completed(y)) * self.width_out
        store = Store(sram=base_out, dram=dram * self.beats(Buffer.OUT), x_size=len(blocks) * done * self.width_out)
        self.builder.add([store], "results", waits=["compute"], signals=["compute"] * bool(later))

    def completed(self, y):
        """The rows of results that the rows above y complete."""
        return y // self.stride - (self.stride == 1 and y > 0)

    def rows_of(self, block, y, src, out):
        """The steps of a block in a strip, and how many rows of results they complete."""
        ends = [1 + row * self.across for row in range(self.stride + 1)]
        emit = {"emit": Emit.REQUANT, "scl": block % (2 * self.group), "clip_lo": -128, "clip_hi": 127}
        count, row, done, steps = min(self.rows, self.height - y), 0, 0, []
        column = block * self.across if self.by_rows else 0

        def run(first, end, at, **fields):
            kernel = {"init": 1, "uop_begin": ends[first], "uop_end": ends[end], "wgt": column}
            steps.append(self.step(**kernel, src=at - first * self.across, **fields))

        if y == 0:  # above it is padding
            run(0, 1, src, **self.edge)
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
            below = src + count * self.across if self.padding is None else self.padding
            run(self.stride - 1, self.stride, below, out=out + done * self.width_out, **emit)
            done += 1
        return steps, done


class Taps:
    """An axis of a kernel in groups of at most `most` taps, each of one phase of the stride.

    Tap `first + stride * k` of a group multiplies pixel `stride * (i + begin + k) + phase` for
    result i; taps before `skip` or from `end` on are no taps, or those of the group before.
    """

    def __init__(self, kernel, stride, before, most=3):
        self.stride, self.most, self.groups = stride, most, []
        for phase in range(stride):
            taps = [tap for tap in range(kernel) if (tap - before) % stride == phase]
            places = [(tap - before) // stride for tap in taps]
            for at in range(0, len(taps), most):
                start = max(0, min(at, len(taps) - most))
                self.groups.append((phase, places[start], taps[start], at - start, min(most, len(taps) - start)))

    @staticmethod
    def of_columns(kernel, stride, before):
        """Taps of a row in the fewest steps: a pass takes all columns, or those of a phase."""
        choices = [Taps(kernel, phases, before, most) for phases in dict.fromkeys((1, stride)) for most in (3, COLUMNS)]
        return min(choices, key=lambda taps: (len(taps.groups) / taps.stride, len(taps.groups), taps.most))

    @property
    def begin(self):
        """The first place that a group reads."""
        return min(begin for _, begin, *_ in self.groups)

    @property
    def end(self):
        """One past the last place that a group reads."""
        return max(begin for _, begin, *_ in self.groups) + self.most

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
    """A layer of any kernel: a pass over a strip for each 3x5 taps of it, which adds to its sums.

    A strip is some rows of results of a block of channels, and all pixels that they need. With
    strides, a pass takes each second row, and each pixel of it or each second one. In the buffers
    of sums and results, two rows that complete no result come first; behind each row is a place for
    sums of no result.
    """

    def __init__(self, layer, config):
        self.layer, self.config, self.fill = layer, config, layer.options["fill"]
        (kernel, strides), pads = (pair(layer.options[name]) for name in ("kernel", "strides")), layer.options["pads"]
        top, left = pads[:2] if isinstance(pads, tuple) else (pads, pads)
        self.down, self.along = Taps(kernel[0], strides[0], top), Taps.of_columns(kernel[1], strides[1], left)
        self.taps = 3 * self.along.most  # of a pass
        self.passes = [(r, c) for r in range(len(self.down.groups)) for c in range(len(self.along.groups))]
        _, channels, self.height, self.width = layer.inputs[0].shape
        _, _, self.rows_out, self.width_out = layer.output.shape
        self.blocks = -(-channels // config.block_out)
        window = self.along.most - 1  # columns of padding behind a row are those before the next one
        self.before = max(0, -self.along.begin - window)
        shared = max(0, -self.along.begin - self.before)
        self.apart = strides[1] // self.along.stride  # columns from a result to the next one
        last = (self.width_out - 1) * self.apart + self.along.end
        self.columns = self.before + max(-(-self.width // self.along.stride) + shared, last)
        self.across = self.along.stride * self.columns
        self.halo = self.down.end - self.down.begin - 1
        self.room = config.inp_depth // 2
        self.pitch = self.width_out + 1
        results = min(config.out_depth // 2, config.acc_depth) // self.pitch - 2
        self.rows = min(self.rows_out, self.room // (self.across * strides[0]) - self.halo, results)
        self.vectors = -(-self.taps * len(self.passes) // config.block_in) * config.block_in
        entries = self.vectors // config.block_in
        if self.rows < 1 or self.columns > min(LONGEST, config.acc_depth) or 2 * entries > config.wgt_depth:
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
        builder.add([self.clear(loop0=self.columns, acc0=1), self.clear(loop0=3 * COLUMNS, src0=1)])
        for number, strip in enumerate(self.strips):
            self.load_strip(number, *strip)
            if number > 0:
                self.compute_strip(number - 1, *self.strips[number - 1])
        self.compute_strip(number, *strip)
        return builder.finished(result)

    def tensors(self):
        """Pixels and results as other layers have them; the taps of each pass over a block."""
        weight, lanes, groups = self.layer.inputs[1], self.config.block_out, len(self.along.groups)

        def tap(b, v, o):
            at, most = v // self.taps, self.along.most
            y, in_rows = self.down.tap(at // groups, v % self.taps // most)
            x, in_columns = self.along.tap(at % groups, v % most)
            inside = (b * lanes + o < weight.shape[0]) & (at < len(self.passes)) & in_rows & in_columns
            return te.select(inside, weight[b * lanes + o, y, x], 0)

        self.builder.input(pixels_of(self.layer, self.config, self.height, self.width))
        self.builder.input(te.compute((self.blocks, self.vectors, lanes), tap, "taps"), "weight")
        self.builder.input(scales_of(self.layer, self.config), "weight")
        results = self.builder.output("results", (self.blocks, self.rows_out, self.width_out, self.config.batch, lanes))
        return te.compute(self.layer.output.shape, lambda n, c, y, x: results[c // lanes, y, x, n, c % lanes], "plain")

    def kernels(self, begins):
        """The steps of a row for each group of columns; sums begin in the first pass."""
        for _, begin, *_ in self.along.groups:
            first = self.before + begin + self.along.most - 1  # the column that completes the first result
            yield [self.pixel(column, column - first, begins) for column in range(self.columns)]

    def pixel(self, column, place, begins):
        """The step of a pixel, which completes the result of a place of the row, or none."""
        src, (result, beside) = column * self.along.stride, divmod(place, self.apart)
        if 0 <= result < self.width_out and not beside:
            return MicroOp(acc=result, src=src, wgt=column, first=int(begins), last=1)
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
            taps = block % 2 * self.vectors + self.taps * at
            steps.append(taps_of(self.load, self.along.most, taps))
            if self.fill and number == at == 0:  # columns of padding are in the line buffer before the first row
                first = {"uop_begin": 1, "uop_end": 1 + self.columns, "src": base}
                steps.append(self.step(init=1, top=1, fill=self.fill, **first))
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


HALVES = (  # taps of two halves of a pixel, and of two of each constant
    {"acc": 4, "loop0": 2, "acc0": 5},
    {"acc": 2, "loop0": 2, "acc0": 2, "loop1": 2, "acc1": 5},
    {"acc": 1, "loop0": 3, "acc0": 3, "loop1": 2, "acc1": 2},
)
ODD = ({"acc": 14}, {"acc": 8, "loop0": 2, "acc0": 6}, {"acc": 2, "loop0": 3, "acc0": 6})


class Scaling:
    """The product of an image and a factor for each channel, as squeeze-and-excite has it.

    The pixel is in three rows, whose taps are two halves of the factor and its lowest bit. In two
    rows of the window are constants, of which as many have these taps that they add up to the
    opposite of the zero point.

    Strips are pixels of a block of channels, or all pixels of several blocks.
    """

    def __init__(self, layer, config):
        layer.require("scaling", by_channel=True, batch=1, dtype=config.inp_dtype, raw=False)
        if config.batch != 1 or config.block_in != config.block_out:
            sizes = f"{config.batch}x{config.block_in}x{config.block_out}"
            raise vdla.LayerError(f"a machine must have batch 1, and block_in must be block_out, got {sizes}")
        zero, self.zero = pair(layer.options["zero_points"])
        self.layer, self.config, most = layer, config, 2 ** (config.inp_bits - 1) - 1
        shape = layer.inputs[0].shape
        self.pixels, self.blocks = prod(shape[2:]), -(-shape[1] // config.block_out)
        self.constants = 0 if not zero else 1 if -zero <= most else 2
        self.fill = -zero // max(1, self.constants)
        self.room = min(config.inp_depth, config.acc_depth, config.out_depth) // 4
        self.factors = 2 * self.room  # behind both strips
        if self.factors + self.blocks > config.inp_depth:
            raise vdla.LayerError(f"factors must fit beside two strips of {self.room} entries, got {self.blocks}")
        many = max(1, min(self.room // self.pixels, config.scl_depth // 4))
        size = -(-self.pixels // -(-self.pixels // self.room))
        self.strips = [
            (block, min(many, self.blocks - block), first, min(size, self.pixels - first))
            for block in range(0, self.blocks, many)
            for first in range(0, self.pixels, size)
        ]
        self.many = many
        names = ("dw", "dw_factors", "dw_clear")
        self.step, self.load, self.clear = (isa_of(config).format_named(name).cls for name in names)
        self.builder = vdla.ProgramBuilder(config, "scaling")

    def program(self):
        """Each strip is loaded while the one before is computed."""
        builder, result = self.builder, self.tensors()
        builder.load_micro_ops([MicroOp(first=1, last=1)])
        builder.add([Load(Buffer.INP, sram=self.factors, x_size=self.blocks)], "factors", signals=["compute"])
        window = {"uop_begin": 0, "uop_end": 1, "loop0": COLUMNS - 2, "src": self.factors}
        constants = self.step(init=1, top=1, fill=self.fill, **window)
        builder.add([self.clear(), self.clear(loop0=3 * COLUMNS, src0=1), constants], waits=["load"])
        for number in range(len(self.strips) + 1):
            if number < len(self.strips):
                self.load_strip(number)
            if number > 0:
                self.compute_strip(number - 1)
        return builder.finished(result)

    def tensors(self):
        """Pixels, factors and results in blocks of channels."""
        (data, other, _), lanes = self.layer.inputs, self.config.block_out
        shape, (zero, other_zero) = data.shape, pair(self.layer.options["zero_points"])

        def packed(tensor, fill, name):
            def element(b, y, x, n, o):
                return te.select(b * lanes + o < shape[1], tensor[n, b * lanes + o, y, x], fill)

            return te.compute((self.blocks, *tensor.shape[2:], 1, lanes), element, name)

        self.builder.input(packed(data, zero, "pixels"))
        self.builder.input(packed(other, other_zero, "factors"))
        self.builder.input(scales_of(self.layer, self.config), "weight")
        results = self.builder.output("results", (self.blocks, *shape[2:], 1, lanes))
        return te.compute(self.layer.output.shape, lambda n, c, y, x: results[c // lanes, y, x, n, c % lanes], "plain")

    def beats(self, buffer):
        return self.config.entry_bytes[buffer] // self.config.axi_bytes

    def load_strip(self, number):
        block, many, first, count = self.strips[number]
        place, waits = number % 2 * self.many, ["compute"] if number >= 2 else []
        scales = Load(Buffer.SCL, sram=place, dram=block * self.beats(Buffer.SCL), x_size=many)
        self.builder.add([scales], "scales", waits=waits)
        rows = {"y_size": many, "y_stride": self.pixels * self.beats(Buffer.INP), "x_size": count}
        dram = (block * self.pixels + first) * self.beats(Buffer.INP)
        load = Load(Buffer.INP, sram=number % 2 * self.room, dram=dram, **rows)
        self.builder.add([load], "pixels", signals=["compute"])

    def compute_strip(self, number):
        block, many, begin, count = self.strips[number]
        base, steps = number % 2 * self.room, []
        sent = {"emit": Emit.REQUANT, "clip_lo": -128, "clip_hi": 127, "alone": 1}
        for index in range(many):
            factor = {"src": self.factors + block + index, "minus": self.zero}
            steps.append(self.load(**HALVES[self.constants], **factor))
            steps.append(self.load(**ODD[self.constants], odd=1, **factor))
            place = {name: base + index * count for name in ("acc", "src", "out")}
            loops = {"uop_begin": 0, "uop_end": 1, "loop1": count, "acc1": 1, "src1": 1}
            steps.append(self.step(init=1, scl=number % 2 * self.many + index, **place, **loops, **sent))
        before, later = ["store"] * (number >= 2), ["load"] * (number + 2 < len(self.strips))
        self.builder.add(steps, waits=["load", *before], signals=[*later, "store"])
        rows = {"y_size": many, "y_stride": self.pixels * self.beats(Buffer.OUT), "x_size": count}
        store = Store(sram=base, dram=(block * self.pixels + begin) * self.beats(Buffer.OUT), **rows)
        self.builder.add([store], "results", waits=["compute"], signals=["compute"] * bool(later))
