// SPDX-License-Identifier: Apache-2.0
// A recording: the columns of one run, unpacked, and what is derived from them.
//
// Cycles are inclusive: an instruction runs from its start to its end. `times` are there at once;
// the details (fields, tokens, footprints) follow after the first picture.
"use strict";

const ARRAYS = {
  int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, float64: Float64Array,
};
const NONE = -1;
/** The bytes of zlib data in base64. */
async function inflate(text) {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** A column; where it was stored as differences, their sums. */
function unpackColumn(bytes, { type, stored, count, place }) {
  const values = new ARRAYS[stored](bytes, place, count);
  if (type === stored) return values;
  const sums = new ARRAYS[type](count);
  for (let i = 0, sum = 0; i < count; i++) sums[i] = sum += values[i];
  return sums;
}

/** How many values of an ascending array are below a limit. */
function below(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The sums of all values before each place. */
function sumsBefore(counts) {
  const sums = new Int32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) sums[i + 1] = sums[i] + counts[i];
  return sums;
}

/** The kinds of the instructions of a mnemonic, by the buffer that they load. */
function kindsOf(mnemonic) {
  const names = mnemonic === "load" ? ["load inp", "load wgt"] : [mnemonic];
  const usual = mnemonic === "load" ? "load other" : names[0];
  const kind = (name) => (KINDS.includes(name) ? KINDS.indexOf(name) : KINDS.indexOf("extension"));
  return Array.from({ length: 8 }, (_, buffer) => kind(names[buffer] ?? usual));
}

/** The instructions of one unit in order; `sums[j][i]` are the cycles of the first i, of kind `used[j]`. */
class Lane {
  constructor(name, members, starts, ends, kinds) {
    Object.assign(this, { name, members, starts, ends, kinds, used: [...new Set(kinds)] });
    this.sums = this.used.map((kind) => {
      const sums = new Float64Array(members.length + 1);
      for (let i = 0; i < members.length; i++) sums[i + 1] = sums[i] + (kinds[i] === kind ? ends[i] + 1 - starts[i] : 0);
      return sums;
    });
  }

  /** The cycles that instructions of each kind of `used` spend before a cycle. */
  spent(cycle) {
    const count = below(this.starts, cycle), spent = this.sums.map((sums) => sums[count]);
    for (let i = count - 1; i >= 0 && this.ends[i] >= cycle; i--) {
      spent[this.used.indexOf(this.kinds[i])] -= this.ends[i] + 1 - cycle;
    }
    return spent;
  }

  /** The place of the instruction that runs in a cycle, else of the next one; null behind the last. */
  at(cycle) {
    const place = below(this.ends, cycle);
    return place < this.members.length ? place : null;
  }
}

class Recording {
  /** The recording of a number in the page, without its details. */
  static async load(number) {
    const text = (name) => document.getElementById(name + number).textContent;
    const recording = new Recording(JSON.parse(text("head")));
    recording.#take(recording.head.times, await inflate(text("times")));
    recording.#derive();
    recording.loadDetails = async () => {
      recording.#take(recording.head.details, await inflate(text("details")));
      recording.#deriveDetails();
    };
    return recording;
  }

  constructor(head) {
    Object.assign(this, { head, columns: {}, ready: false });
    this.operatorOfLine = head.lines.map((_, line) => head.operators.findLast((one) => one.line <= line)?.name ?? "");
  }

  #take(descriptions, bytes) {
    for (const one of descriptions) this.columns[one.name] = unpackColumn(bytes, one);
  }

  #derive() {
    const { unit, code, buffer, start, duration, waited } = this.columns, count = unit.length;
    this.count = count;
    this.formats = new Map(this.head.formats.map((format) => [format.code, format]));
    this.start = start;
    this.end = new Float64Array(count);
    this.dispatch = new Float64Array(count);
    this.kind = new Uint8Array(count);
    this.place = new Int32Array(count); // among those of its unit
    const all = new Int32Array(count), sizes = [0, 0, 0];
    const kinds = new Map(this.head.formats.map(({ code: one, mnemonic }) => [one, kindsOf(mnemonic)]));
    for (let k = 0; k < count; k++) {
      this.end[k] = start[k] + duration[k];
      this.dispatch[k] = start[k] - waited[k];
      this.kind[k] = kinds.get(code[k])[buffer[k]];
      this.place[k] = sizes[unit[k]]++;
      all[k] = k;
    }
    this.fetch = new Lane("fetch", all, this.dispatch, this.dispatch, new Uint8Array(count).fill(KINDS.indexOf("dispatch")));
    this.lanes = sizes.map((size, number) => this.#lane(number, size));
    this.bands = [];
    const { path_begin: begins, path_instruction: instructions, path_cause: causes } = this.columns;
    this.path = { begins, instructions, causes };
    this.onPath = new Uint8Array(count);
    for (const k of this.path.instructions) this.onPath[k] = 1;
  }

  #lane(number, size) {
    const { unit, start } = this.columns, members = new Int32Array(size);
    for (let k = 0; k < this.count; k++) if (unit[k] === number) members[this.place[k]] = k;
    const starts = new Float64Array(size), ends = new Float64Array(size), kinds = new Uint8Array(size);
    for (let i = 0; i < size; i++) {
      [starts[i], ends[i], kinds[i]] = [start[members[i]], this.end[members[i]], this.kind[members[i]]];
    }
    return new Lane(this.head.units[number + 1], members, starts, ends, kinds);
  }

  #deriveDetails() {
    const { columns } = this;
    this.takers = [[], []].map(() => new Int32Array(this.count).fill(NONE)); // of tokens to prev and next
    for (let k = 0; k < this.count; k++) {
      if (columns.from_prev[k]) this.takers[1][k - columns.from_prev[k]] = k;
      if (columns.from_next[k]) this.takers[0][k - columns.from_next[k]] = k;
    }
    this.queues = this.#queues();
    this.order = this.#startOrder();
    this.takingTokens = this.order.filter((k) => columns.from_prev[k] || columns.from_next[k]);
    this.bands = this.#bands();
    this.accessBegin = sumsBefore(columns.accesses);
    this.rangeBegin = sumsBefore(columns.shape_ranges);
    this.ready = true;
  }

  /** The instructions in the order of their starts. */
  #startOrder() {
    const order = new Int32Array(this.count), next = [0, 0, 0], { lanes } = this;
    const heads = lanes.map((lane) => lane.starts[0] ?? Infinity);
    for (let i = 0; i < this.count; i++) {
      const earlier = heads[0] <= heads[1] ? 0 : 1, unit = heads[earlier] <= heads[2] ? earlier : 2;
      order[i] = lanes[unit].members[next[unit]++];
      heads[unit] = lanes[unit].starts[next[unit]] ?? Infinity;
    }
    return order;
  }

  /** The operators, or the programs if there are several, over time: [{name, begin, end}, ...]. */
  #bands() {
    const { operators, parts, cycles } = this.head;
    if (!operators.length && parts.length === 1) return [];
    if (!operators.length) return parts.map(({ name, cycle }, i) => ({ name, begin: cycle, end: parts[i + 1]?.cycle ?? cycles }));
    const bands = [];
    for (const k of this.lanes[1].members) {
      const name = this.operator(k), last = bands.at(-1);
      if (name && name !== last?.name) bands.push({ name, begin: last ? this.start[k] : 0, end: cycles });
      if (name && last && name !== last.name) last.end = this.start[k];
    }
    return bands;
  }

  /** The token queues: the units, the instructions, when tokens are given and taken, in order. */
  #queues() {
    const { from_prev, from_next, unit } = this.columns;
    return [[0, 1, from_prev], [1, 0, from_next], [1, 2, from_prev], [2, 1, from_next]].map(([giver, taker, from]) => {
      const takers = this.lanes[taker].members.filter((k) => from[k] && unit[k - from[k]] === giver);
      const givers = takers.map((k) => k - from[k]), given = Float64Array.from(givers, (k) => this.end[k]);
      return { giver, taker, givers, takers, given, taken: Float64Array.from(takers, (k) => this.start[k]) };
    });
  }

  field(number, k) {
    return this.columns[`field ${number}`]?.[k] ?? 0;
  }

  /** The assembly of an instruction, as `vdla disasm` prints it. */
  assembly(k) {
    const format = this.formats.get(this.columns.code[k]), words = [format.mnemonic];
    const values = {};
    for (const { name, column, default: usual, names } of format.fields) {
      const value = name === "buffer" ? this.columns.buffer[k] : this.field(column, k);
      values[name] = value;
      if (TOKEN_FIELDS.includes(name)) continue;
      if (name === "dram") words.push(...this.#address(k, value));
      else if (usual === null) words.push(names?.[value] ?? value);
      else if (value !== usual) words.push(`${name}=${names?.[value] ?? value}`);
    }
    words.push(...this.#tokenWords(k, values));
    if (this.columns.line[k] !== NONE) words.push(`@${this.columns.line[k] - this.part(k).line}`);
    return words.join(" ");
  }

  #address(k, beat) {
    const tensor = this.head.tensors[this.columns.tensor[k]], hex = `0x${beat.toString(16)}`;
    if (tensor === undefined) return beat ? [`dram=${hex}`] : [];
    return [`dram=${tensor}${beat ? `+${hex}` : ""}`];
  }

  #tokenWords(k, values) {
    const units = this.head.neighbours[this.columns.unit[k]];
    return [["wait", "pop"], ["signal", "push"]].flatMap(([word, verb]) => {
      const partners = units.filter((unit, side) => unit && values[`${verb}_${["prev", "next"][side]}`]);
      return partners.length ? [`${word}=${partners}`] : [];
    });
  }

  part(k) {
    return this.head.parts.findLast((part) => part.instruction <= k);
  }

  /** The operator of an instruction, or "". */
  operator(k) {
    return this.operatorOfLine[this.columns.line[k]] ?? "";
  }

  /** The instructions whose tokens an instruction takes, and those that take its tokens. */
  givers(k) {
    return ["from_prev", "from_next"].map((name) => this.columns[name][k]).filter(Boolean).map((far) => k - far);
  }

  takersOf(k) {
    return this.takers.map((takers) => takers[k]).filter((taker) => taker !== NONE);
  }

  /** What had to come before an instruction could start: [{text, cycle, instruction, ready}, ...], the
   * last first; `ready` is the cycle from which it allowed the start. */
  reasons(k) {
    const lane = this.lanes[this.columns.unit[k]], previous = lane.members[this.place[k] - 1];
    const command = { text: "the command from fetch", cycle: this.dispatch[k], instruction: NONE };
    const reasons = [{ ...command, ready: this.dispatch[k] + this.head.command_delay }];
    for (const giver of this.givers(k)) {
      const text = `a token from ${this.lanes[this.columns.unit[giver]].name}`, cycle = this.end[giver];
      reasons.push({ text, cycle, instruction: giver, ready: cycle + 1 });
    }
    if (previous !== undefined) {
      const text = `the instruction of ${lane.name} before it`, cycle = this.start[previous];
      const free = reasons.every(({ ready }) => ready < this.start[k]); // nothing else explains the start
      reasons.push({ text, cycle, instruction: previous, ready: free ? this.start[k] : cycle + 1 });
    }
    return reasons.sort((a, b) => b.ready - a.ready);
  }

  /** The accesses of an instruction: [{buffer, writes, ranges: [[begin, end], ...]}, ...]. */
  accesses(k) {
    const { access_shape, access_first, shape_buffer, shape_writes, ranges } = this.columns, result = [];
    for (let a = this.accessBegin[k]; a < this.accessBegin[k + 1]; a++) {
      const shape = access_shape[a], first = access_first[a], places = [];
      for (let r = this.rangeBegin[shape]; r < this.rangeBegin[shape + 1]; r++) {
        places.push([first + ranges[2 * r], first + ranges[2 * r + 1]]);
      }
      result.push({ buffer: shape_buffer[shape], writes: shape_writes[shape] > 0, ranges: places });
    }
    return result;
  }
}

const KINDS = ["load inp", "load wgt", "load other", "gemm", "vector", "extension", "store", "sync", "dispatch"];
const TOKEN_FIELDS = ["pop_prev", "pop_next", "push_prev", "push_next"];
