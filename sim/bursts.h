// What a memory behind an AXI4 port keeps of the bursts under way.

#pragma once

#include <cstddef>
#include <cstdint>

constexpr int kBusBytes = CELOSIA_BUS_BYTES;
constexpr uint32_t kOkay = 0;
constexpr uint32_t kDecerr = 3;
constexpr size_t kAddressQueue = 64;

struct Burst {
    uint64_t ready;
    uint64_t address;
    uint32_t beats;
    uint32_t id;
};

struct Answer {
    uint64_t ready;
    uint32_t id;
    uint32_t response;
};
