// SPDX-License-Identifier: Apache-2.0
// Node's `assert`, as far as the file system in memory uses it.
export default function assert(condition, message) {
  if (!condition) throw new Error(message);
}
assert.strictEqual = (a, b) => assert(a === b, `${a} must be ${b}`);
