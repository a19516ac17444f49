// SPDX-License-Identifier: Apache-2.0
// The panels below the timeline: the units in the cycle of the cursor, the chosen instruction, the
// assembly and the schedule around it.
"use strict";

const AROUND = 9; // lines before and behind the chosen one

/** An element with properties and children; a child may be text. */
function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
}

const figure = (value) => value.toLocaleString("en");

class Panels {
  /** `go` chooses an instruction of the active recording. */
  constructor(go) {
    this.go = go;
    [this.now, this.assembly, this.schedule] = ["now", "assembly", "schedule"].map((id) => document.getElementById(id));
    this.lines = Array.from({ length: 2 * AROUND + 1 }, () => make("li", {}, make("b"), make("i"), document.createTextNode("")));
    this.lines[AROUND].className = "chosen";
    this.assembly.replaceChildren(make("h2", {}, "assembly"), make("ol", {}, ...this.lines));
  }

  show(recording, { cycle, instruction: k }) {
    if (!recording.ready || !recording.count) return;
    this.now.replaceChildren(...this.#units(recording, cycle), ...this.#instruction(recording, k));
    this.#assembly(recording, k);
    this.#schedule(recording, k);
  }

  #link(k, text = `#${k}`) {
    return make("a", { href: `#instruction=${k}`, onclick: (event) => { event.preventDefault(); this.go(k); } }, text);
  }

  // --- the cycle

  #units(recording, cycle) {
    const rows = recording.lanes.map((lane) => make("tr", {}, make("th", {}, lane.name), make("td", {}, ...this.#unit(recording, lane, cycle))));
    return [make("h2", {}, `cycle ${figure(cycle)}`), make("table", {}, ...rows)];
  }

  #unit(recording, lane, cycle) {
    const place = lane.at(cycle);
    if (place === null) return ["finished"];
    const k = lane.members[place];
    if (lane.starts[place] <= cycle) return [`${KINDS[recording.kind[k]]} `, this.#link(k), ` until ${figure(recording.end[k])}`];
    const { text, cycle: at, instruction: other } = recording.reasons(k)[0];
    return ["waits for ", text, " ", other === NONE ? `(${figure(at)})` : this.#link(other), ", then runs ", this.#link(k)];
  }

  // --- the instruction

  #instruction(recording, k) {
    const { start, end, dispatch, columns } = recording, operator = recording.operator(k);
    const rows = [
      ["assembly", make("code", {}, recording.assembly(k))],
      ["cycles", `${figure(start[k])} to ${figure(end[k])} (${figure(end[k] + 1 - start[k])}), dispatched ${figure(dispatch[k])}`],
      ["unit", recording.lanes[columns.unit[k]].name + (recording.onPath[k] ? ", on the critical path" : "")],
      ["started after", this.#reasons(recording, k)],
      ["waited", this.#waits(recording, k)],
      ["gives tokens to", this.#links(recording.takersOf(k))],
      ...recording.accesses(k).map(({ buffer, writes, ranges }) => [
        writes ? "writes" : "reads", `${recording.head.buffers[buffer].name} ${rangesText(ranges)}`,
      ]),
    ];
    const shown = rows.filter(([, content]) => content.length !== 0);
    const table = make("table", {}, ...shown.map(([name, content]) => make("tr", {}, make("th", {}, name), make("td", {}, ...[content].flat()))));
    return [make("h2", {}, `instruction ${figure(k)}${operator && ` of ${operator}`}`), table];
  }

  #reasons(recording, k) {
    return recording.reasons(k).flatMap(({ text, cycle, instruction }, i) => [
      i ? "; " : "", `${text} `, instruction === NONE ? "" : this.#link(instruction), ` (${figure(cycle)})`,
    ]);
  }

  #waits(recording, k) {
    const spent = recording.head.counters.map((name) => [name, recording.columns[`wait ${name}`]?.[k] ?? 0]);
    return spent.filter(([name, cycles]) => cycles && name !== "busy").map(([name, cycles]) => `${figure(cycles)} ${COUNTERS[name] ?? name}`).join(", ");
  }

  #links(instructions) {
    return instructions.flatMap((k, i) => [i ? ", " : "", this.#link(k)]);
  }

  // --- text around

  /** The lines stay; what is in them changes, which is faster. */
  #assembly(recording, k) {
    for (const [i, line] of this.lines.entries()) {
      const shown = k - AROUND + i;
      line.hidden = shown < 0 || shown >= recording.count;
      if (line.hidden) continue;
      const [number, mark, text] = line.childNodes;
      number.textContent = shown;
      mark.className = `kind${recording.kind[shown]}`;
      text.data = recording.assembly(shown);
      line.onclick = () => this.go(shown);
    }
  }

  #schedule(recording, k) {
    const line = recording.columns.line[k], lines = [];
    if (this.shown?.recording === recording && this.shown.line === line) return;
    this.shown = { recording, line };
    if (line === NONE) {
      this.schedule.replaceChildren(make("h2", {}, "schedule"), make("p", {}, "no line: it loads micro-ops"));
      return;
    }
    const { line: begin, lines: count } = recording.part(k), shown = this.#enclosing(recording, line, begin);
    const indents = [];
    for (const i of shown) {
      const text = recording.head.lines[i], indent = text.search(/\S/);
      while (indents.at(-1) >= indent) indents.pop();
      const content = "  ".repeat(indents.length) + text.trim();
      indents.push(indent);
      lines.push(make("li", { className: i === line ? "chosen" : "" }, make("b", {}, `${i - begin}`), content));
    }
    this.schedule.replaceChildren(make("h2", {}, "schedule"), make("ol", {}, ...lines));
  }

  /** The loops around a line, from the outside, the line, and those behind it. */
  #enclosing(recording, line, begin) {
    const { lines } = recording.head, indent = (i) => lines[i].search(/\S/), result = [line];
    for (let i = line - 1; i >= begin && indent(result[0]) > 0; i--) if (indent(i) < indent(result[0])) result.unshift(i);
    for (let i = line + 1; i < lines.length && indent(i) > indent(line); i++) result.push(i);
    return result;
  }
}

/** Ranges of entries in text; many of them shortened. */
function rangesText(ranges) {
  const texts = ranges.slice(0, 6).map(([begin, end]) => (end - begin > 1 ? `${begin}–${end - 1}` : `${begin}`));
  return texts.join(", ") + (ranges.length > 6 ? `, … ${ranges.at(-1)[1] - 1} (${ranges.length} ranges)` : "");
}

const COUNTERS = {
  memory_latency: "for the memory's latency", memory_bandwidth: "for the memory's bandwidth",
  wait_load_to_compute: "for a token from load", wait_compute_to_load: "for a token from compute",
  wait_compute_to_store: "for a token from compute", wait_store_to_compute: "for a token from store",
  commands: "for a command", idle: "finished",
};
