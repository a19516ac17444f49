// SPDX-License-Identifier: Apache-2.0
// The two functions of LZ4 that Verilator's FST writer calls, without compression: a valid LZ4 block of literals only.
// Waveforms then need no library but zlib, which compresses their large blocks.

#ifndef VDLA_LZ4_H_
#define VDLA_LZ4_H_

#include <cstring>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char *source, char *target, int size, int) {
  char *out = target;
  *out++ = static_cast<char>((size < 15 ? size : 15) << 4);
  int rest = size - 15;
  for (; rest >= 255; rest -= 255) *out++ = static_cast<char>(255);
  if (rest >= 0) *out++ = static_cast<char>(rest);
  if (size > 0) std::memcpy(out, source, static_cast<size_t>(size));
  return static_cast<int>(out - target) + size;
}

#endif
