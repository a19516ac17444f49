// SPDX-License-Identifier: Apache-2.0
// What the bundled packages expect of Node.js and a browser does not have.
import { Buffer as NodeBuffer } from "buffer";

const nanoseconds = () => BigInt(Math.round(performance.now() * 1e6));
export const Buffer = NodeBuffer;
export const global = globalThis;
export const process = {
  argv: [], browser: true, env: {}, pid: 1, platform: "browser", version: "v20.0.0", versions: { node: "20" },
  cwd: () => "/", getgid: () => 0, getuid: () => 0, hrtime: { bigint: nanoseconds },
  nextTick: (task, ...values) => queueMicrotask(() => task(...values)),
};
