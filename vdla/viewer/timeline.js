// SPDX-License-Identifier: Apache-2.0
// The drawing: units over time, tokens between them, the critical path, the buffers.
//
// Where a pixel has many instructions, a column of it shows the share of cycles of each kind; tokens
// are then drawn as the number that waits in each queue.
"use strict";

const ROW = { ruler: 22, operators: 15, fetch: 10, lane: 22, gap: 24, heat: 34, title: 18 };
const LEFT = 92; // of the time axis; labels stand to its left
const MOST_TOKENS = 400; // with arrows
const LEAST_PART = 1.5; // pixels of a kind that has any cycles
const LANE_TOPS = [0, 1, 2].map((unit) => unit * (ROW.lane + ROW.gap));

const FETCHING = "fetch reads instructions";

/** From cycles to pixels; `from` and `to` are the first cycle and the end of the window. */
class Scale {
  constructor(from, to, left, width) {
    Object.assign(this, { from, to, left, width, rate: width / (to - from) });
  }

  x(cycle) {
    return this.left + (cycle - this.from) * this.rate;
  }

  cycle(x) {
    return this.from + (x - this.left) / this.rate;
  }
}

class Timeline {
  constructor(canvas, recordings, palette) {
    Object.assign(this, { canvas, recordings, palette, heat: null, places: [] });
    this.base = new OffscreenCanvas(1, 1); // all but the cursor and the chosen instruction
  }

  /** Draw a state {active, cycle, instruction, from, to} of the viewer. */
  draw(state) {
    const { canvas, base } = this, ratio = devicePixelRatio || 1, width = canvas.clientWidth;
    this.scale = new Scale(state.from, state.to, LEFT, Math.max(50, width - LEFT - 12));
    const height = this.#layout(state.active), sizes = [width, height].map((length) => Math.round(length * ratio));
    const recording = this.recordings[state.active], seen = [state.from, state.to, state.active, recording.ready, this.heat, this.palette, ...sizes];
    if (seen.some((value, i) => value !== this.seen?.[i])) {
      this.seen = seen;
      [base.width, base.height] = sizes;
      this.#on(base, ratio);
      this.#ruler(height);
      for (const place of this.places) this.#run(place, state.active === place.number);
      this.#heatMaps(recording);
    }
    if (canvas.width !== sizes[0] || canvas.height !== sizes[1]) {
      [canvas.width, canvas.height] = sizes;
      canvas.style.height = `${height}px`;
    }
    this.#on(canvas, 1);
    this.context.clearRect(0, 0, ...sizes);
    this.context.drawImage(base, 0, 0);
    this.#on(canvas, ratio);
    this.#selection(this.places[state.active], state.instruction);
    if (recording.ready) this.#footprint(recording, state.instruction);
    this.#cursor(state, height);
  }

  /** Draw on a canvas from now on. */
  #on(canvas, ratio) {
    this.context = canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.font = "12px system-ui, sans-serif";
  }

  /** The tops of all rows; the height. */
  #layout(active) {
    let y = ROW.ruler;
    this.places = this.recordings.map((recording, number) => {
      const place = { recording, number, title: y };
      y += this.recordings.length > 1 ? ROW.title : 0;
      place.operators = y;
      y += recording.head.operators.length + recording.head.parts.length > 1 ? ROW.operators : 0;
      place.fetch = y;
      place.lanes = LANE_TOPS.map((top) => y + ROW.fetch + 6 + top);
      y = place.lanes[2] + ROW.lane + 10;
      return place;
    });
    this.heatTops = this.recordings[active].head.buffers.map((_, number) => y + number * (ROW.heat + 3));
    return y + this.heatTops.length * (ROW.heat + 3) + 2;
  }

  #label(text, y, strong = false) {
    this.context.fillStyle = strong ? this.palette.text : this.palette.faint;
    this.context.textAlign = "right";
    this.context.textBaseline = "middle";
    this.context.fillText(text, this.scale.left - 8, y);
  }

  #track(y, height) {
    this.context.fillStyle = this.palette.track;
    this.context.fillRect(this.scale.left, y, this.scale.width, height);
  }

  #ruler(height) {
    const { context, scale, palette } = this, step = tickStep((scale.to - scale.from) / (scale.width / 110));
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let cycle = Math.ceil(scale.from / step) * step; cycle <= scale.to; cycle += step) {
      const x = Math.round(scale.x(cycle)) + 0.5;
      context.fillStyle = palette.rule;
      context.fillRect(x, ROW.ruler - 4, 1, height);
      context.fillStyle = palette.faint;
      const text = cycle.toLocaleString("en"), half = context.measureText(text).width / 2;
      context.fillText(text, Math.max(scale.left + half - 4, Math.min(x, scale.left + scale.width + 10 - half)), 9);
    }
    this.#label("cycle", 9);
  }

  // --- units

  #run(place, chosen) {
    const { recording } = place;
    if (this.recordings.length > 1) this.#title(place, chosen);
    this.#operators(place);
    this.#label("fetch", place.fetch + ROW.fetch / 2);
    this.#lane(recording.fetch, place.fetch, ROW.fetch);
    for (const [unit, lane] of recording.lanes.entries()) {
      this.#label(lane.name, place.lanes[unit] + ROW.lane / 2, true);
      this.#lane(lane, place.lanes[unit], ROW.lane);
    }
    this.#path(place);
    if (recording.ready) this.#tokens(place);
  }

  #title({ title, recording, number }, chosen) {
    const { context, scale, palette } = this;
    context.fillStyle = chosen ? palette.text : palette.faint;
    context.textAlign = "left";
    const cycles = recording.head.cycles.toLocaleString("en");
    context.fillText(`${number + 1}: ${recording.head.title}, ${cycles} cycles${chosen ? " (active)" : ""}`, scale.left, title + 9);
  }

  /** The operator, or the program, of what compute does. */
  #operators({ recording, operators }) {
    const { context, scale, palette } = this;
    for (const [number, { name, begin, end }] of recording.bands.entries()) {
      const x = Math.max(scale.left, scale.x(begin)), right = Math.min(scale.left + scale.width, scale.x(end));
      if (right - x < 1) continue;
      context.fillStyle = number % 2 ? palette.track : palette.rule;
      context.fillRect(x, operators, right - x, ROW.operators - 3);
      context.fillStyle = palette.text;
      context.textAlign = "left";
      if (right - x > 30) fillClipped(context, name, x + 3, operators + 6, right - x - 5);
    }
  }

  #lane(lane, y, height) {
    this.#track(y, height);
    const { scale } = this, first = below(lane.ends, scale.from), last = below(lane.starts, scale.to);
    if (last - first > 2 * scale.width) this.#shares(lane, y, height);
    else for (let i = first; i < last; i++) this.#bar(lane, i, y, height);
  }

  #bar(lane, i, y, height) {
    const { context, scale } = this, [x, right] = this.#span(lane.starts[i], lane.ends[i]);
    const gap = right - x > 4 ? 0.6 : 0;
    context.fillStyle = this.palette.kinds[lane.kinds[i]];
    context.fillRect(x, y, Math.max(0.7, right - x - gap), height);
    const room = Math.min(right, scale.x(lane.starts[i + 1] ?? Infinity)) - x; // the next one may overlap it
    if (room > 40 && height > 12) {
      context.fillStyle = "#fff";
      context.textAlign = "left";
      fillClipped(context, `${lane.members[i]} ${KINDS[lane.kinds[i]]}`, x + 4, y + height / 2, room - 6);
    }
  }

  #span(start, end) {
    const { scale } = this;
    return [Math.max(scale.left, scale.x(start)), Math.min(scale.left + scale.width, scale.x(end + 1))];
  }

  #shares(lane, y, height) {
    const { context, scale } = this;
    let before = lane.spent(scale.cycle(scale.left));
    for (let x = scale.left; x < scale.left + scale.width; x++) {
      const after = lane.spent(scale.cycle(x + 1));
      let bottom = y + height;
      for (let j = 0; j < after.length; j++) {
        const share = (after[j] - before[j]) * scale.rate;
        if (share <= 0) continue;
        const part = Math.min(bottom - y, Math.max(LEAST_PART, share * height));
        context.fillStyle = this.palette.kinds[lane.used[j]];
        context.fillRect(x, bottom -= part, 1, part);
      }
      before = after;
    }
  }

  /** The critical path as a line below the bars of the unit that decides. */
  #path({ recording, lanes, fetch }) {
    const { context, scale } = this, { begins, instructions, causes } = recording.path;
    const fetching = recording.head.causes.indexOf(FETCHING);
    const draw = (step, x, right) => {
      const y = causes[step] === fetching ? fetch + ROW.fetch : lanes[recording.columns.unit[instructions[step]]] + ROW.lane;
      context.fillRect(x, y + 1, Math.max(1, right - x), 3);
    };
    context.fillStyle = this.palette.path;
    const first = Math.max(0, below(begins, scale.from) - 1), last = below(begins, scale.to);
    if (last - first > 2 * scale.width) {
      for (let x = scale.left; x < scale.left + scale.width; x++) draw(below(begins, scale.cycle(x + 0.5)) - 1, x, x + 1);
      return;
    }
    for (let step = first; step < last; step++) {
      draw(step, ...this.#span(begins[step], (begins[step + 1] ?? recording.head.cycles) - 1));
    }
  }

  /** The chosen instruction, framed, with its tokens. */
  #selection(place, k) {
    const { context } = this, { recording, lanes } = place, unit = recording.columns.unit[k];
    for (const queue of recording.ready ? recording.queues : []) {
      for (const i of [queue.takers.indexOf(k), queue.givers.indexOf(k)]) if (i >= 0) this.#arrow(place, queue, i, 1);
    }
    const [x, right] = this.#span(recording.start[k], recording.end[k]);
    if (right < this.scale.left || x > this.scale.left + this.scale.width) return;
    context.strokeStyle = this.palette.text;
    context.lineWidth = 2;
    context.strokeRect(x - 1, lanes[unit] - 1, Math.max(2, right - x) + 2, ROW.lane + 2);
  }

  // --- tokens

  #tokens(place) {
    const { scale } = this;
    for (const queue of place.recording.queues) {
      const first = below(queue.taken, scale.from), last = below(queue.given, scale.to);
      if (last - first > MOST_TOKENS) this.#waiting(queue, place);
      else for (let i = first; i < last; i++) this.#arrow(place, queue, i, 0.55);
    }
  }

  /** From the end of the giver to the start of the taker. */
  #arrow({ lanes }, queue, i, alpha) {
    const { context, scale } = this, down = queue.taker > queue.giver;
    const y = lanes[queue.giver] + (down ? ROW.lane + 4 : 0), end = lanes[queue.taker] + (down ? 0 : ROW.lane + 4);
    const x = scale.x(queue.given[i] + 1), right = scale.x(queue.taken[i]);
    context.save();
    context.beginPath();
    context.rect(scale.left, 0, scale.width, 1e5);
    context.clip();
    context.globalAlpha = alpha;
    context.strokeStyle = context.fillStyle = down ? this.palette.down : this.palette.up;
    context.lineWidth = alpha === 1 ? 2 : 1;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(right, end);
    context.stroke();
    const tip = down ? -5 : 5;
    context.beginPath();
    context.moveTo(right, end);
    context.lineTo(right - 3, end + tip);
    context.lineTo(right + 3, end + tip);
    context.fill();
    context.restore();
  }

  /** How many tokens wait in a queue: an area in its half of the gap between two lanes. */
  #waiting(queue, { lanes }) {
    const { context, scale } = this, down = queue.taker > queue.giver, half = (ROW.gap - 6) / 2;
    const base = lanes[Math.max(queue.giver, queue.taker)] - 1 - (down ? half : 0);
    context.fillStyle = down ? this.palette.down : this.palette.up;
    for (let x = scale.left; x < scale.left + scale.width; x++) {
      const cycle = scale.cycle(x + 0.5), count = below(queue.given, cycle) - below(queue.taken, cycle);
      if (count > 0) context.fillRect(x, base, 1, -Math.min(half, 1 + count));
    }
  }

  // --- buffers

  #heatMaps(recording) {
    const { context, scale, heat } = this;
    context.imageSmoothingEnabled = false;
    for (const [number, { name, depth, used }] of recording.head.buffers.entries()) {
      const y = this.heatTops[number];
      this.#track(y, ROW.heat);
      this.#label(name, y + ROW.heat / 2 - 6, true);
      this.#label(used < depth ? `${used} of ${depth}` : `${depth}`, y + ROW.heat / 2 + 7);
      if (!heat || heat.recording !== recording) continue;
      context.save();
      context.beginPath();
      context.rect(scale.left, y, scale.width, ROW.heat);
      context.clip();
      const x = scale.x(heat.from);
      context.drawImage(heat.pictures[number], x, y, scale.x(heat.to) - x, ROW.heat);
      context.restore();
    }
  }

  /** The entries of the chosen instruction, framed. */
  #footprint(recording, k) {
    const { context } = this, [x, right] = this.#span(recording.start[k], recording.end[k]);
    if (right < this.scale.left || x > this.scale.left + this.scale.width) return;
    for (const { buffer, writes, ranges } of recording.accesses(k)) {
      const rate = ROW.heat / recording.head.buffers[buffer].used;
      context.fillStyle = writes ? this.palette.written : this.palette.read;
      for (const [begin, end] of ranges) {
        context.fillRect(x, this.heatTops[buffer] + begin * rate, Math.max(3, right - x), Math.max(1, (end - begin) * rate));
      }
    }
  }

  #cursor(state, height) {
    const { context, scale } = this, x = scale.x(state.cycle);
    if (x < scale.left || x > scale.left + scale.width) return;
    context.fillStyle = this.palette.cursor;
    context.fillRect(x, ROW.ruler - 4, Math.max(1, Math.min(scale.rate, 3)), height);
  }

  /** What is at a point: {number, instruction} or null. */
  hit(x, y) {
    const cycle = Math.floor(this.scale.cycle(x));
    for (const { recording, number, lanes, fetch } of this.places) {
      const unit = lanes.findIndex((top) => y >= top - 2 && y < top + ROW.lane + 4);
      const lane = unit >= 0 ? recording.lanes[unit] : y >= fetch && y < fetch + ROW.fetch ? recording.fetch : null;
      const place = lane && nearest(lane, cycle, 4 / this.scale.rate);
      if (lane) return place === null ? { number } : { number, instruction: lane.members[place] };
    }
    return null;
  }
}

/** The place of the instruction of a lane that runs in a cycle or within some cycles of it, or null. */
function nearest(lane, cycle, reach) {
  const next = lane.at(cycle);
  const places = (next === null ? [lane.members.length - 1] : [next - 1, next]).filter((place) => place >= 0);
  const far = (place) => Math.max(0, lane.starts[place] - cycle, cycle - lane.ends[place]);
  const best = places.sort((a, b) => far(a) - far(b))[0];
  return best !== undefined && far(best) <= reach ? best : null;
}

/** The least 1, 2 or 5 times a power of ten that is not below a number of cycles. */
function tickStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least);
}

/** Text cut to a width. */
function fillClipped(context, text, x, y, width) {
  const fits = Math.floor((width / Math.max(1, context.measureText(text).width)) * text.length);
  context.textBaseline = "middle";
  if (fits >= text.length) context.fillText(text, x, y);
  else if (fits > 2) context.fillText(`${text.slice(0, fits - 1)}…`, x, y);
}
