// SPDX-License-Identifier: Apache-2.0
// The pins of one memory port: the model has those of all ports in one vector, the first port in its lowest bits.

#ifndef VDLA_PORT_PINS_H_
#define VDLA_PORT_PINS_H_

#include <cstdint>
#include <cstring>

#include "stalls.h"

namespace vdla {

constexpr unsigned kAddressBytes = 5;

// A value of few bits.
template <unsigned Bits, typename Vector>
unsigned pin(const Vector &vector, unsigned port) {
  if (kPorts == 1) return vector;
  return vector >> (Bits * port) & ((1u << Bits) - 1);
}

template <unsigned Bits, typename Vector>
void set_pin(Vector &vector, unsigned port, unsigned value) {
  const unsigned mask = ((1u << Bits) - 1) << (Bits * port);
  vector = kPorts == 1 ? value : (vector & ~mask) | value << (Bits * port);
}

// Addresses and data are whole bytes, which the model stores with the lowest first.
template <typename Vector>
uint64_t address_pins(const Vector &vector, unsigned port) {
  uint64_t address = 0;
  std::memcpy(&address, reinterpret_cast<const uint8_t *>(&vector) + port * kAddressBytes, kAddressBytes);
  return address;
}

// Null is zeros.
template <unsigned Bytes, typename Vector>
void set_data_pins(Vector &vector, unsigned port, const uint8_t *data) {
  uint8_t *pins = reinterpret_cast<uint8_t *>(&vector) + port * Bytes;
  if (data == nullptr) {
    std::memset(pins, 0, Bytes);
  } else {
    std::memcpy(pins, data, Bytes);
  }
}

}  // namespace vdla

#endif
