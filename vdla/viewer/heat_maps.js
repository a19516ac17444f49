// SPDX-License-Identifier: Apache-2.0
// Heat maps of the buffers: how many of the entries of each row of pixels are live, written and read
// in each column of pixels.
//
// An entry is live from the instruction that writes it to the last one that reads it before it is
// written again. One pass over all accesses, in the order of their starts, finds that for a window
// of cycles; it runs in slices, so that keys are answered in between.
"use strict";

const HEAT_ROWS = 30;
const SLICE_MS = 8;
const PASS_ACCESSES = 512; // between two looks at the clock

/** A plane of pixels; `add` spreads an interval over columns by its exact share of each of them. */
class Plane {
  constructor(rows, columns) {
    Object.assign(this, { columns, stride: columns + 2, steps: new Float32Array(rows * (columns + 2)) });
  }

  add(row, begin, end, weight) {
    const from = Math.max(0, begin), to = Math.min(this.columns, end);
    if (from >= to) return;
    const first = Math.floor(from), last = Math.floor(to), base = row * this.stride;
    this.steps[base + first] += (first + 1 - from) * weight;
    this.steps[base + first + 1] += (from - first) * weight;
    this.steps[base + last] -= (last + 1 - to) * weight;
    this.steps[base + last + 1] -= (to - last) * weight;
  }

  sum() {
    for (let i = 0; i < this.steps.length; i++) if (i % this.stride) this.steps[i] += this.steps[i - 1];
    return this;
  }
}

/** One buffer in a pass: since when each entry has its value, and when that was last read. */
class BufferState {
  constructor({ used }, columns) {
    this.rows = Math.max(1, Math.min(used, HEAT_ROWS));
    this.entries = used;
    this.weight = this.rows / used;
    this.written = new Float64Array(used);
    this.lastRead = new Float64Array(used).fill(-Infinity);
    [this.live, this.writes, this.reads] = [0, 1, 2].map(() => new Plane(this.rows, columns));
  }

  access(entry, writes, begin, end) {
    const row = Math.floor(entry * this.weight);
    (writes ? this.writes : this.reads).add(row, begin, end, this.weight);
    if (!writes) {
      this.lastRead[entry] = end;
      return;
    }
    this.close(entry);
    this.written[entry] = this.lastRead[entry] > begin ? end : begin; // it reads its old value until its end
    this.lastRead[entry] = -Infinity;
  }

  close(entry) {
    if (this.lastRead[entry] > this.written[entry]) {
      this.live.add(Math.floor(entry * this.weight), this.written[entry], this.lastRead[entry], this.weight);
    }
  }

  finish() {
    for (let entry = 0; entry < this.entries; entry++) this.close(entry);
    for (const plane of [this.live, this.writes, this.reads]) plane.sum();
    return this;
  }
}

/** The states of all buffers for the window of a scale; yields now and then. */
function* heatPass(recording, { from, to, width }) {
  const { access_shape, access_first, shape_buffer, shape_writes, ranges } = recording.columns;
  const { accessBegin, rangeBegin, start, end } = recording, rate = width / (to - from);
  const states = recording.head.buffers.map((buffer) => new BufferState(buffer, width));
  let seen = 0;
  for (const k of recording.order) {
    const begin = (start[k] - from) * rate, until = (end[k] + 1 - from) * rate;
    for (let a = accessBegin[k]; a < accessBegin[k + 1]; a++) {
      const shape = access_shape[a], first = access_first[a], state = states[shape_buffer[shape]];
      for (let r = rangeBegin[shape]; r < rangeBegin[shape + 1]; r++) {
        const last = first + ranges[2 * r + 1];
        for (let entry = first + ranges[2 * r]; entry < last; entry++) {
          state.access(entry, shape_writes[shape], begin, until);
        }
      }
    }
    if ((seen += accessBegin[k + 1] - accessBegin[k]) > PASS_ACCESSES) {
      seen = 0;
      yield;
    }
  }
  return states.map((state) => state.finish());
}

/** The result of a generator that runs in slices; undefined once `wanted` is false. */
async function inSlices(generator, wanted) {
  for (;;) {
    const until = performance.now() + SLICE_MS;
    while (performance.now() < until) {
      const { done, value } = generator.next();
      if (done) return value;
    }
    await new Promise((resume) => setTimeout(resume));
    if (!wanted()) return undefined;
  }
}

/** A picture of a buffer: live entries in the text's grey-green, reads in blue, writes in orange. */
function heatPicture(state, columns) {
  const picture = new OffscreenCanvas(columns, state.rows), context = picture.getContext("2d");
  const image = context.createImageData(columns, state.rows), layers = [
    [state.live, [0, 158, 115], 0.75], [state.reads, [0, 114, 178], 0.9], [state.writes, [213, 94, 0], 1],
  ];
  for (let row = 0; row < state.rows; row++) {
    for (let x = 0; x < columns; x++) {
      let colour = [0, 0, 0], alpha = 0;
      for (const [plane, tone, most] of layers) {
        const share = Math.min(1, plane.steps[row * plane.stride + x]), over = share > 0.002 ? most * Math.sqrt(share) : 0;
        colour = colour.map((value, i) => value * (1 - over) + tone[i] * over);
        alpha = alpha + over - alpha * over;
      }
      const place = 4 * (row * columns + x);
      for (let i = 0; i < 3; i++) image.data[place + i] = alpha ? colour[i] / alpha : 0;
      image.data[place + 3] = 255 * alpha;
    }
  }
  context.putImageData(image, 0, 0);
  return picture;
}
