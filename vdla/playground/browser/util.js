// SPDX-License-Identifier: Apache-2.0
// The functions of Node's `util` that the file system in memory uses, for its errors and classes.
export const inherits = (child, parent) => {
  Object.setPrototypeOf(child.prototype, parent.prototype);
};
export const inspect = String;
export const format = (...parts) => parts.join(" ");
export const debuglog = () => () => {};
