// SPDX-License-Identifier: Apache-2.0
// The viewer: its state (cursor, chosen instruction, window), keys, mouse, search and links.
//
// Every change goes through `Viewer.set`, which draws once for each frame.
"use strict";

const MOST_ZOOM = 20; // cycles in the narrowest window
const HEAT_DELAY_MS = 100; // after a change of the window, which the next key may change again
const SEARCH_SLICE = 4096;

const KEYS = [
  ["← →", "a cycle back, forward (Shift: 10)", { ArrowLeft: (v, far) => v.byCycle(far ? -10 : -1), ArrowRight: (v, far) => v.byCycle(far ? 10 : 1) }],
  ["p n", "the previous, the next instruction of the program", { p: (v) => v.choose(v.state.instruction - 1), n: (v) => v.choose(v.state.instruction + 1) }],
  ["↑ ↓", "the previous, the next instruction of the same unit", { ArrowUp: (v) => v.byUnit(-1), ArrowDown: (v) => v.byUnit(1) }],
  ["T t", "the instruction that took the previous token, that takes the next one", { T: (v) => v.byToken(-1), t: (v) => v.byToken(1) }],
  ["w", "what the instruction waited for", { w: (v) => v.cause() }],
  ["C c", "the previous, the next step of the critical path", { C: (v) => v.byPath(-1), c: (v) => v.byPath(1) }],
  ["+ −", "zoom in, out; the mouse wheel too", { "+": (v) => v.zoom(0.5), "=": (v) => v.zoom(0.5), "-": (v) => v.zoom(2) }],
  ["[ ]", "half a window back, forward; dragging too", { "[": (v) => v.pan(-0.5), "]": (v) => v.pan(0.5) }],
  ["f z", "the whole run; the chosen instruction", { f: (v) => v.whole(), z: (v) => v.closeUp() }],
  ["Home End", "the first, the last cycle", { Home: (v) => v.moveTo(0), End: (v) => v.moveTo(v.recording.head.cycles - 1) }],
  ["/", "search; Enter and Shift+Enter: the next, the previous match", { "/": (v) => v.search.box.focus() }],
  ["Tab", "the other run", { Tab: (v) => v.set({ active: (v.state.active + 1) % v.recordings.length }) }],
  ["?", "this list", { "?": () => document.getElementById("keys").showModal() }],
];
const ACTIONS = Object.assign({}, ...KEYS.map(([, , actions]) => actions));

class Viewer {
  constructor(recordings) {
    this.recordings = recordings;
    this.longest = Math.max(1, ...recordings.map((one) => one.head.cycles));
    this.state = { active: 0, cycle: 0, instruction: 0, from: 0, to: this.longest };
    this.canvas = document.getElementById("canvas");
    this.timeline = new Timeline(this.canvas, recordings, palette());
    this.panels = new Panels((k) => this.choose(k));
    this.search = new Search(this);
    this.frames = 0;
  }

  get recording() {
    return this.recordings[this.state.active];
  }

  /** Change the state; draw it in the next frame. */
  set(change) {
    Object.assign(this.state, change);
    if ("active" in change) this.state.instruction = Math.min(this.state.instruction, this.recording.count - 1);
    this.pending ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.pending = undefined;
    this.timeline.draw(this.state);
    this.panels.show(this.recording, this.state);
    this.frames += 1;
    this.#heat();
    clearTimeout(this.linking);
    this.linking = setTimeout(() => writeLink(this.state), 200);
  }

  /** Begin to compute the heat maps of this window, unless they are there. */
  async #heat() {
    const { recording, timeline } = this, { from, to, width } = timeline.scale;
    const wanted = `${this.state.active} ${from} ${to} ${width}`;
    if (!recording.ready || wanted === this.heating) return;
    this.heating = wanted;
    if (timeline.heat) await new Promise((resume) => setTimeout(resume, HEAT_DELAY_MS));
    if (wanted !== this.heating) return;
    const columns = Math.round(width), pass = heatPass(recording, { from, to, width: columns });
    const states = await inSlices(pass, () => wanted === this.heating);
    if (!states) return;
    timeline.heat = { recording, from, to, pictures: states.map((state) => heatPicture(state, columns)) };
    this.set({});
  }

  // --- steps

  /** Move the cursor, and the window where it would leave it. */
  moveTo(cycle, more = {}) {
    const at = Math.max(0, Math.min(this.longest - 1, cycle)), { from, to } = this.state;
    const moved = at < from || at >= to ? this.#window(at - (to - from) * 0.3, to - from) : {};
    this.set({ cycle: at, ...moved, ...more });
  }

  byCycle(count) {
    const { recording } = this, cycle = this.state.cycle + count;
    const running = recording.lanes.map((lane) => [lane, lane.at(cycle)]).filter(([lane, place]) => place !== null && lane.starts[place] === cycle);
    this.moveTo(cycle, running.length ? { instruction: running[0][0].members[running[0][1]] } : {});
  }

  choose(k) {
    if (k >= 0 && k < this.recording.count) this.moveTo(this.recording.start[k], { instruction: k });
    else this.set({});
  }

  byUnit(count) {
    const { recording, state } = this, lane = recording.lanes[recording.columns.unit[state.instruction]];
    this.choose(lane.members[recording.place[state.instruction] + count] ?? NONE);
  }

  byToken(count) {
    const { takingTokens: takers, order, start } = this.recording, k = this.state.instruction;
    if (!takers) return;
    const later = (other) => start[other] > start[k] || (start[other] === start[k] && order.indexOf(other) > order.indexOf(k));
    let low = 0, high = takers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (later(takers[middle])) high = middle;
      else low = middle + 1;
    }
    const before = takers[low - 1] === k ? low - 2 : low - 1;
    this.choose(takers[count > 0 ? low : before] ?? NONE);
  }

  cause() {
    if (this.recording.ready) this.choose(this.recording.reasons(this.state.instruction)[0].instruction);
  }

  byPath(count) {
    const { begins, instructions } = this.recording.path, { cycle } = this.state;
    const step = count > 0 ? below(begins, cycle + 1) : below(begins, cycle) - 1;
    if (step in begins) this.moveTo(begins[step], { instruction: instructions[step] });
  }

  // --- the window

  #window(from, length) {
    const span = Math.max(Math.min(MOST_ZOOM, this.longest), Math.min(this.longest, length));
    const first = Math.max(0, Math.min(this.longest - span, from));
    return { from: first, to: first + span };
  }

  zoom(factor, around = this.state.cycle) {
    const { from, to } = this.state, middle = Math.max(from, Math.min(to, around));
    this.set(this.#window(middle - (middle - from) * factor, (to - from) * factor));
  }

  pan(share) {
    const { from, to } = this.state;
    this.set(this.#window(from + (to - from) * share, to - from));
  }

  whole() {
    this.set({ from: 0, to: this.longest });
  }

  closeUp() {
    const { start, end } = this.recording, k = this.state.instruction, length = 8 * (end[k] + 1 - start[k]);
    this.set(this.#window((start[k] + end[k] - length) / 2, length));
  }
}

// --- search ---------------------------------------------------------------------------------------

/**
 * Instructions by number, by cycle, or by words, all of which an instruction has: in its assembly
 * after an opcode, otherwise in its assembly, its operator or its line of the schedule.
 */
class Search {
  constructor(viewer) {
    this.viewer = viewer;
    this.box = document.getElementById("search");
    this.output = document.getElementById("matches");
    this.box.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Escape") this.box.blur();
      if (event.key === "Enter") this.go(event.shiftKey ? -1 : 1);
    });
  }

  async go(count) {
    const words = this.box.value.trim().toLowerCase(), { viewer } = this;
    const number = words.match(/^#?(\d+)$/), cycle = words.match(/^cycle\s*(\d+)$/);
    if (cycle) viewer.moveTo(Number(cycle[1]));
    if (number) viewer.choose(Number(number[1]));
    if (cycle || number || !words || !viewer.recording.ready) return;
    const matches = await this.#matches(words);
    if (!matches) return;
    const k = viewer.state.instruction, next = count > 0 ? below(matches, k + 1) : below(matches, k) - 1;
    const place = (next + matches.length) % matches.length;
    this.output.value = matches.length ? `${place + 1} of ${matches.length}` : "none";
    if (matches.length) viewer.choose(matches[place]);
  }

  async #matches(words) {
    const { recording } = this.viewer;
    if (this.known?.words === words && this.known.recording === recording) return this.known.matches;
    const found = this.#scan(recording, words);
    this.running = found;
    const matches = await inSlices(found, () => this.running === found);
    if (matches) this.known = { words, recording, matches };
    return matches;
  }

  *#scan(recording, words) {
    const parts = words.split(/\s+/), opcode = recording.head.formats.find(({ mnemonic }) => mnemonic === parts[0]);
    const lines = recording.head.lines.map((line, i) => ` ${line} ${recording.operatorOfLine[i]}`.toLowerCase());
    const matches = [];
    for (let k = 0; k < recording.count; k++) {
      const assembly = recording.assembly(k).toLowerCase(), text = opcode ? assembly : assembly + (lines[recording.columns.line[k]] ?? "");
      if (parts.every((part) => text.includes(part)) && (!opcode || recording.columns.code[k] === opcode.code)) matches.push(k);
      if (k % 64 === 0) yield;
      if (k % SEARCH_SLICE === 0) this.output.value = `${Math.floor((100 * k) / recording.count)} %`;
    }
    return matches;
  }
}

// --- links ----------------------------------------------------------------------------------------

const LINKED = ["cycle", "instruction", "run", "from", "to"];

function writeLink(state) {
  const values = { ...state, run: state.active + 1, from: Math.round(state.from), to: Math.round(state.to) };
  const link = LINKED.map((name) => `${name}=${values[name]}`).join("&");
  try {
    history.replaceState(null, "", `#${link}`);
  } catch {
    // a frame of a notebook has no address
  }
}

function readLink(viewer) {
  const given = new URLSearchParams(location.hash.slice(1));
  const values = Object.fromEntries(LINKED.filter((name) => /^\d+$/.test(given.get(name))).map((name) => [name, Number(given.get(name))]));
  const active = Math.min(viewer.recordings.length, values.run ?? viewer.state.active + 1) - 1;
  viewer.set({ active: Math.max(0, active) });
  if ("instruction" in values) viewer.choose(values.instruction);
  if ("cycle" in values) viewer.moveTo(values.cycle);
  if (values.to > values.from) viewer.set({ from: values.from, to: Math.min(viewer.longest, values.to) });
}

// --- the page -------------------------------------------------------------------------------------

/** The colours of the style sheet. */
function palette() {
  const style = getComputedStyle(document.body), value = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["text", "faint", "rule", "track", "path", "down", "up", "read", "written", "cursor"];
  return { ...Object.fromEntries(names.map((name) => [name, value(name)])), kinds: KINDS.map((_, i) => value(`kind${i}`)) };
}

function writeHead(recordings) {
  document.getElementById("title").textContent = document.title;
  const texts = recordings.map(({ head, count }) => `${head.machine}, ${figure(head.cycles)} cycles, ${figure(count)} instructions`);
  document.getElementById("figures").textContent = texts.length > 1 ? "" : texts[0]; // two runs have them above their units
  const used = new Set(recordings.flatMap((one) => one.lanes.flatMap((lane) => lane.used)));
  const marks = [...used].sort((a, b) => a - b).map((kind) => [`kind${kind}`, KINDS[kind]]);
  marks.push(["path", "critical path"], ["down", "token down"], ["up", "token up"], ["live", "live entries"], ["read", "read"], ["written", "written"]);
  document.getElementById("legend").replaceChildren(...marks.map(([name, text]) => make("span", {}, make("i", { className: name }), text)));
  document.getElementById("keys").replaceChildren(
    make("h2", {}, "keys"), make("table", {}, ...KEYS.map(([keys, text]) => make("tr", {}, make("th", {}, keys), make("td", {}, text)))),
    make("form", { method: "dialog" }, make("button", {}, "close")),
  );
}

function listen(viewer) {
  const act = (key, far) => ACTIONS[key]?.(viewer, far);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (!(event.key in ACTIONS) || (event.key === "Tab" && viewer.recordings.length < 2)) return;
    event.preventDefault();
    act(event.key, event.shiftKey);
  });
  document.getElementById("buttons").addEventListener("click", (event) => act(event.target.dataset.key));
  listenToMouse(viewer);
  addEventListener("resize", () => viewer.set({}));
  addEventListener("hashchange", () => readLink(viewer));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    viewer.timeline.palette = palette();
    viewer.set({});
  });
}

function listenToMouse(viewer) {
  const { canvas, timeline } = viewer, tip = document.getElementById("tip");
  let drag = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) viewer.pan((event.deltaX || event.deltaY) / 1500);
    else viewer.zoom(2 ** (event.deltaY / 300), timeline.scale.cycle(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.offsetX, from: viewer.state.from, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return showTip(viewer, tip, event);
    drag.moved ||= Math.abs(event.offsetX - drag.x) > 3;
    if (drag.moved) viewer.pan((drag.from - viewer.state.from - (event.offsetX - drag.x) / timeline.scale.rate) / (viewer.state.to - viewer.state.from));
    return undefined;
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) click(viewer, event);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
}

function click(viewer, { offsetX, offsetY }) {
  const hit = viewer.timeline.hit(offsetX, offsetY);
  if (hit) viewer.set({ active: hit.number });
  if (hit?.instruction !== undefined) viewer.choose(hit.instruction);
  viewer.moveTo(Math.floor(viewer.timeline.scale.cycle(offsetX)));
}

function showTip(viewer, tip, { offsetX, offsetY }) {
  const hit = viewer.timeline.hit(offsetX, offsetY), recording = viewer.recordings[hit?.number];
  tip.hidden = hit?.instruction === undefined || !recording.ready;
  if (tip.hidden) return;
  const k = hit.instruction;
  tip.textContent = `#${k} ${recording.assembly(k)}\ncycles ${figure(recording.start[k])} to ${figure(recording.end[k])}`;
  tip.style.left = `${Math.max(4, Math.min(offsetX + 12, viewer.canvas.clientWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${offsetY + 16}px`;
}

async function main() {
  const count = document.querySelectorAll("script[id^=head]").length;
  const recordings = await Promise.all([...Array(count).keys()].map((number) => Recording.load(number)));
  const viewer = new Viewer(recordings);
  window.viewer = viewer;
  writeHead(recordings);
  listen(viewer);
  viewer.draw();
  await new Promise((resume) => requestAnimationFrame(() => setTimeout(resume)));
  viewer.firstPaint = performance.now();
  for (const recording of recordings) await recording.loadDetails();
  readLink(viewer);
  viewer.set({});
  viewer.loaded = performance.now();
}

main();
