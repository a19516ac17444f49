// SPDX-License-Identifier: Apache-2.0
// The page: a list of puzzles, an editor, and what Python says of a try. Tries and the fewest cycles
// are kept in this browser. Python runs in a worker; a run is stopped by ending the worker.
"use strict";

const KEPT = "vdla-playground";
const at = (id) => document.getElementById(id);

class Playground {
  constructor(entries) {
    this.entries = entries;
    this.kept = readKept();
    this.request = null; // waits for Python, or for its answer
    this.ready = false;
    for (const [id, action] of [["check", "check"], ["cycles", "cycles"], ["run", "run"]])
      at(id).onclick = () => this.ask(action);
    at("stop").onclick = () => this.stop();
    at("restore").onclick = () => this.restore();
    at("text").oninput = () => this.edited();
    at("text").onkeydown = (event) => this.key(event);
    window.onhashchange = () => this.choose(location.hash.slice(1));
    this.choose(location.hash.slice(1));
    this.startPython();
  }

  // --- what is shown

  choose(name) {
    if (this.request) this.stop();
    this.entry = this.entries.find((one) => one.name === name) ?? this.entries[0];
    const { title, html, missing, limit, best, hints, kind } = this.entry;
    at("title").textContent = title;
    at("task").innerHTML = html;
    at("missing").textContent = missing;
    at("missing").hidden = !missing;
    at("limit").textContent = limit ? `At most ${limit} cycles; best known: ${best}.` : "";
    at("check").hidden = at("cycles").hidden = kind !== "puzzle";
    at("run").hidden = kind === "puzzle";
    at("text").value = this.kept[this.entry.name]?.text ?? this.entry.start;
    this.showHints(hints);
    this.show("");
    this.showLines();
    this.showList();
    this.showButtons();
  }

  showList() {
    at("list").replaceChildren(...this.entries.map((one) => this.listed(one)));
    const puzzles = this.entries.filter((one) => one.kind === "puzzle");
    const solved = puzzles.filter((one) => this.kept[one.name]?.cycles !== undefined);
    const chosen = at("list").querySelector("[aria-current]"), list = at("list");
    list.scrollTop = chosen.offsetTop - list.offsetTop - list.clientHeight / 2;
    at("solved").textContent = `${solved.length} of ${puzzles.length} puzzles solved`;
  }

  listed(one) {
    const item = document.createElement("li"), link = document.createElement("a");
    const title = document.createElement("span"), cycles = document.createElement("span");
    title.textContent = one.title;
    cycles.textContent = this.kept[one.name]?.cycles ?? "";
    link.href = `#${one.name}`;
    if (one === this.entry) link.setAttribute("aria-current", "page");
    link.append(title, cycles);
    item.append(link);
    return item;
  }

  showHints(hints) {
    const buttons = hints.map((html, number) => {
      const button = document.createElement("button");
      button.textContent = `Hint ${number + 1}`;
      button.onclick = () => {
        const text = document.createElement("div");
        text.innerHTML = html;
        button.replaceWith(text);
      };
      return button;
    });
    at("hints").replaceChildren(...buttons);
  }

  showLines() {
    const count = at("text").value.split("\n").length;
    at("lines").textContent = Array.from({ length: count }, (_, line) => line + 1).join("\n");
    at("text").rows = count;
  }

  showButtons() {
    for (const id of ["check", "cycles", "run"]) at(id).disabled = Boolean(this.request) || Boolean(this.entry.missing);
    at("stop").disabled = !this.request;
  }

  show(text, kind = "") {
    at("output").textContent = text;
    at("output").className = kind;
  }

  state(text) {
    at("state").textContent = text;
  }

  // --- the editor

  edited() {
    this.keep({ text: at("text").value });
    this.showLines();
  }

  restore() {
    at("text").value = this.entry.start;
    this.edited();
    this.show("");
  }

  /** A tab indents by four spaces; Escape leaves the editor, for those who go by keys. */
  key(event) {
    if (event.key === "Escape") at("text").blur();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.ask(this.entry.kind === "puzzle" ? "check" : "run");
    if (event.key !== "Tab" || event.shiftKey) return;
    event.preventDefault();
    at("text").setRangeText("    ", at("text").selectionStart, at("text").selectionEnd, "end");
    this.edited();
  }

  keep(values) {
    this.kept[this.entry.name] = { ...this.kept[this.entry.name], ...values };
    try {
      localStorage.setItem(KEPT, JSON.stringify(this.kept));
    } catch {
      this.state("this browser keeps nothing");
    }
  }

  // --- Python

  startPython() {
    this.ready = false;
    this.worker = new Worker("worker.js");
    this.worker.onmessage = ({ data }) => this.heard(data);
    this.worker.onerror = (event) => this.heard({ failure: event.message });
  }

  ask(kind) {
    if (this.request || this.entry.missing) return;
    this.request = { kind, name: this.entry.file ?? this.entry.name, text: at("text").value };
    this.show("");
    this.showButtons();
    if (this.ready) this.send();
  }

  send() {
    this.state("running");
    this.worker.postMessage(this.request);
  }

  heard({ state, ready, output, answer, failure }) {
    if (state) this.state(state);
    if (output !== undefined && this.request) at("output").textContent += output;
    if (ready) {
      this.ready = true;
      this.state("ready");
      if (this.request) this.send();
    }
    if (answer) this.answered(answer);
    if (failure) this.failed(failure);
  }

  answered({ text, solved, cycles }) {
    const kind = solved ? "solved" : text && this.request.kind !== "cycles" ? "refused" : "";
    const shown = printed() + text;
    if (solved && !(this.kept[this.entry.name]?.cycles <= cycles)) this.keep({ cycles });
    this.finished();
    this.show(shown, kind);
    this.showList();
  }

  /** Python itself failed: what it printed, and a new one. */
  failed(failure) {
    if (!this.ready) return this.state(`Python cannot start: ${failure}`);
    this.finished();
    this.restart();
    this.show(`${printed()}Python ended (${failure}), and was started again`, "refused");
  }

  stop() {
    this.finished();
    if (this.ready) this.restart();
    this.show("stopped");
  }

  finished() {
    this.request = null;
    if (this.ready) this.state("ready");
    this.showButtons();
  }

  restart() {
    this.worker.terminate();
    this.startPython();
  }
}

/** What a run has printed, as whole lines. */
function printed() {
  const text = at("output").textContent;
  return !text || text.endsWith("\n") ? text : `${text}\n`;
}

function readKept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

async function main() {
  if (location.protocol === "file:") {
    const command = "python3 -m http.server --directory build/site";
    at("state").textContent = `A browser runs Python only from a server: ${command}, then http://localhost:8000/playground/`;
    return;
  }
  window.playground = new Playground(await (await fetch("entries.json")).json());
}

main();
