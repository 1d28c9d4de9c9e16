// The host's end of a serial line, 8N1: bytes on one side, levels on a wire on the other.

#pragma once

#include <cstdint>
#include <deque>

// One byte wide side of a line: 8N1 on a wire.
struct Sender {
    std::deque<uint8_t> bytes;
    uint32_t shift = 1;
    int bits = 0;
    uint64_t timer = 0;

    bool step(uint64_t divisor) {
        if (timer == 0) {
            if (bits == 0 && !bytes.empty()) {
                shift = bytes.front() << 1 | 0x200;
                bytes.pop_front();
                bits = 10;
            } else if (bits > 0) {
                shift = shift >> 1 | 0x200;
                bits--;
                if (bits == 0) return step(divisor);
            }
            timer = bits > 0 ? divisor : 0;
        }
        if (timer > 0) timer--;
        return bits > 0 ? shift & 1 : true;
    }
};

struct Receiver {
    int bits = -1;
    uint64_t timer = 0;
    uint32_t shift = 0;

    // Returns a byte, or -1.
    int step(bool level, uint64_t divisor) {
        if (bits < 0) {
            if (level) return -1;
            bits = 0;
            timer = divisor + divisor / 2;
        }
        if (--timer > 0) return -1;
        timer = divisor;
        if (bits == 8) {
            bits = -1;
            return level ? int(shift) : -1;
        }
        shift = shift >> 1 | (level ? 0x80 : 0);
        bits++;
        return -1;
    }
};
