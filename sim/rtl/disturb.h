// What makes life hard for the core behind its AXI4 port, and what watches whether it keeps the rules. Nothing of it is on unless asked for.

#pragma once

#include <cstdint>
#include <cstring>

#include "bursts.h"

// Channels of the bus whose partner may rest for a cycle.
enum Channel { kAr, kR, kAw, kW, kB, kChannels };

struct Disturbance {
    bool pausing = false;
    uint64_t state = 1;
    // Chance that a channel rests for a cycle, in units of 1 / 65536.
    uint32_t chance[kChannels] = {};

    // The beat read, or the answer to a burst written, that is refused, counted down; 0 for none.
    uint64_t refuse_beat = 0;
    uint64_t refuse_answer = 0;
    uint32_t response = 0;
    // What was refused: 0 nothing, 1 a beat read, 2 a burst written; its address and number.
    uint32_t refused = 0;
    uint64_t refused_address = 0;
    uint32_t refused_id = 0;

    void pause(uint64_t seed, const uint32_t* chances) {
        state = seed * 2654435761u + 88172645463325252ull;
        pausing = false;
        for (int n = 0; n < kChannels; n++) {
            chance[n] = chances[n];
            pausing |= chance[n] != 0;
        }
    }

    bool rests(Channel channel) {
        if (!pausing) return false;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (state >> 24 & 65535) < chance[channel];
    }

    void refuse(uint32_t what, uint64_t address, uint32_t id) {
        refused = what;
        refused_address = address;
        refused_id = id;
    }
};

// Rules of AXI4 that a master can break, as bits.
enum Rule {
    kArHeld = 1,     // an address read, offered and not taken, is withdrawn or changed
    kAwHeld = 2,     // the same of an address written
    kWHeld = 4,      // the same of a beat written
    kLast = 8,       // wlast is not at the end of a burst
    kBoundary = 16,  // a burst crosses 4 KiB
    kShape = 32,     // a burst of another kind than INCR of whole beats
};

class Watch {
  public:
    uint32_t broken = 0;

    // Looks at the bus before a rising edge.
    void look(const Signals& s) {
        address(*s.arvalid, *s.arready, *s.araddr, *s.arlen, *s.arid, *s.arsize, *s.arburst, ar_, kArHeld);
        address(*s.awvalid, *s.awready, *s.awaddr, *s.awlen, *s.awid, *s.awsize, *s.awburst, aw_, kAwHeld);
        uint64_t word = s.strobes() << 1 | *s.wlast;
        bool same = w_.waiting && w_.first == word && !std::memcmp(data_, s.wdata, kBusBytes);
        if (w_.waiting && !(*s.wvalid && same)) broken |= kWHeld;
        w_ = {bool(*s.wvalid && !*s.wready), word, 0};
        std::memcpy(data_, s.wdata, kBusBytes);
    }

    void beat(bool last, bool wanted) {
        if (last != wanted) broken |= kLast;
    }

  private:
    struct Held {
        bool waiting = false;
        uint64_t first = 0, second = 0;
    };

    void address(bool valid, bool ready, uint64_t address, uint32_t length, uint32_t id, uint32_t size, uint32_t burst,
                 Held& held, uint32_t rule) {
        uint64_t second = uint64_t(length) << 16 | id << 8 | size << 4 | burst;
        if (held.waiting && !(valid && held.first == address && held.second == second)) broken |= rule;
        held = {valid && !ready, address, second};
        if (!valid) return;
        uint64_t start = address & ~uint64_t(kBusBytes - 1);
        if ((start & 4095) + (length + 1) * kBusBytes > 4096) broken |= kBoundary;
        if (burst != 1 || 1u << size != kBusBytes) broken |= kShape;
    }

    Held ar_, aw_, w_;
    uint8_t data_[kBusBytes] = {};
};
