// SPDX-License-Identifier: Apache-2.0
// Python in a Web Worker: CPython and NumPy, compiled to WebAssembly by CoWasm, and the sources of
// VDLA. It needs neither shared memory nor a service worker: nothing waits for the page. The page
// stops a run by ending the worker.
import wasmImport from "@cowasm/kernel/dist/wasm/worker/import.js";
import { createFileSystem } from "wasi-js";
import bindings from "wasi-js/dist/bindings/browser.js";
import unzip from "wasi-js/dist/unzip.js";

const PYTHON = "/usr/lib/python.wasm", REQUEST = "/tmp/request.json", REPLY = "/tmp/reply.json";
const files = createFileSystem([{ type: "dev" }]);
const decoder = new TextDecoder();
let kernel;

const say = (message) => postMessage(message);
const plain = (module) => module.default ?? module;

async function bytes(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name} must be beside the page, got ${answer.status} ${answer.statusText}`);
  return new Uint8Array(await answer.arrayBuffer());
}

/** Run statements; what fails is printed by Python. */
function execute(statements) {
  if (kernel.callWithString({ name: "cowasm_python_exec", dll: PYTHON }, statements) !== 0)
    throw new Error("Python could not answer");
}

async function start() {
  say({ state: "loading Python" });
  const [archives, python] = [["python.zip", "vdla.zip"].map(bytes), bytes("python.wasm")];
  files.mkdirSync("/tmp", { recursive: true });
  for (const archive of archives) plain(unzip)({ data: await archive, fs: files, directory: "/" });
  files.writeFileSync(PYTHON, await python);
  say({ state: "starting Python" });
  kernel = await plain(wasmImport)({
    source: "kernel.wasm",
    bindings: { ...plain(bindings), fs: files, posix: { getpid: () => 1, getppid: () => 1 } },
    options: {
      env: { PYTHONHOME: "/usr", PYTHONEXECUTABLE: PYTHON, PYTHONPATH: "/lib", PYTHONDONTWRITEBYTECODE: "1", HOME: "/tmp" },
      wasmEnv: { wasmGetSignalState: () => 0 },
      sendStdout: (data) => say({ output: decoder.decode(data) }),
      sendStderr: (data) => say({ output: decoder.decode(data) }),
    },
    importWebAssembly: async (name, options) => (await WebAssembly.instantiate(await bytes(name), options)).instance,
    importWebAssemblySync: (path, options) =>
      new WebAssembly.Instance(new WebAssembly.Module(files.readFileSync(path)), options),
    readFileSync: (path) => files.readFileSync(path),
    maxMemoryMB: 1000,
  });
  kernel.callWithString({ name: "cowasm_python_init", dll: PYTHON }, "");
  say({ state: "importing VDLA" });
  execute("import sys\nfrom vdla.playground.session import answer");
  say({ ready: true });
}

onmessage = ({ data }) => {
  try {
    files.writeFileSync(REQUEST, JSON.stringify(data));
    execute(`answer("${REQUEST}", "${REPLY}")\nsys.stdout.flush()`);
    say({ answer: JSON.parse(files.readFileSync(REPLY, "utf8")) });
  } catch (error) {
    say({ failure: String(error.message ?? error) });
  }
};

start().catch((error) => say({ failure: String(error.message ?? error) }));
