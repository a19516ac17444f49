// SPDX-License-Identifier: Apache-2.0
// The memories of the model by their hierarchical names, as memories.vlt makes them public: those of the buffers.
// An element is stored in 1, 2, 4, 8 or a multiple of 4 bytes, little-endian, its unused bits 0.

#ifndef VDLA_MEMORIES_H_
#define VDLA_MEMORIES_H_

#include <string>
#include <vector>

#include "verilated.h"
#include "verilated_syms.h"

namespace vdla {

struct ModelMemory {
  std::string name;
  const uint8_t *data;
  uint64_t elements;
  uint64_t element_bytes;
};

inline std::vector<ModelMemory> model_memories(VerilatedContext &context) {
  std::vector<ModelMemory> found;
  for (const auto &scope : *context.scopeNameMap()) {
    if (scope.second->varsp() == nullptr) continue;
    for (const auto &entry : *scope.second->varsp()) {
      const VerilatedVar &variable = entry.second;
      if (variable.udims() != 1) continue;
      found.push_back({scope.first, static_cast<const uint8_t *>(variable.datap()),
                       static_cast<uint64_t>(variable.elements(1)), variable.entSize()});
    }
  }
  return found;
}

}  // namespace vdla

#endif
