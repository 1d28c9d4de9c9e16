// A Verilated board: link and core of hw/link/system.py, a memory behind AXI4, and the serial line on a pseudo-terminal, whose
// path is printed first. Runs until its standard input ends.
//
// Arguments: bytes of memory, latency of the memory in cycles, cycles of a bit, damaged bytes in a million, seed.

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "Vcelosia.h"
#include "verilated.h"

namespace {

constexpr int kBusBytes = CELOSIA_BUS_BYTES;
constexpr uint32_t kOkay = 0;
constexpr uint32_t kDecerr = 3;
constexpr size_t kAddressQueue = 64;
constexpr uint64_t kPollCycles = 256;

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

// Drops, doubles or flips bytes, one as often as another.
struct Noise {
    std::mt19937 random;
    uint32_t per_million;

    void pass(uint8_t byte, std::deque<uint8_t>& to) {
        if (random() % 1000000 >= per_million) {
            to.push_back(byte);
            return;
        }
        switch (random() % 3) {
            case 0:
                break;
            case 1:
                to.push_back(byte);
                to.push_back(byte);
                break;
            default:
                to.push_back(byte ^ 1u << random() % 8);
        }
    }
};

struct Memory {
    std::vector<uint8_t> content;
    uint64_t latency;
    std::deque<Burst> reads;
    std::deque<Burst> writes;
    std::deque<Answer> answers;
    uint32_t response = kOkay;

    bool inside(uint64_t address) const { return address + kBusBytes <= content.size(); }

    void offer(Vcelosia& c, uint64_t cycle) {
        static const uint8_t zeros[kBusBytes] = {};
        c.m_axi___05Farready = reads.size() < kAddressQueue;
        c.m_axi___05Fawready = writes.size() < kAddressQueue;
        c.m_axi___05Frvalid = !reads.empty() && reads.front().ready <= cycle;
        if (c.m_axi___05Frvalid) {
            const Burst& burst = reads.front();
            bool good = inside(burst.address);
            std::memcpy(&c.m_axi___05Frdata, good ? &content[burst.address] : zeros, kBusBytes);
            c.m_axi___05Frid = burst.id;
            c.m_axi___05Frresp = good ? kOkay : kDecerr;
            c.m_axi___05Frlast = burst.beats == 1;
        }
        c.m_axi___05Fwready = !writes.empty();
        c.m_axi___05Fbvalid = !answers.empty() && answers.front().ready <= cycle;
        if (c.m_axi___05Fbvalid) {
            c.m_axi___05Fbid = answers.front().id;
            c.m_axi___05Fbresp = answers.front().response;
        }
    }

    void take(Vcelosia& c, uint64_t cycle) {
        if (c.m_axi___05Frvalid && c.m_axi___05Frready) {
            reads.front().address += kBusBytes;
            if (--reads.front().beats == 0) reads.pop_front();
        }
        if (c.m_axi___05Fwready && c.m_axi___05Fwvalid) take_beat(c, cycle);
        if (c.m_axi___05Fbvalid && c.m_axi___05Fbready) answers.pop_front();
        if (c.m_axi___05Farvalid && c.m_axi___05Farready)
            reads.push_back({cycle + latency, c.m_axi___05Faraddr, c.m_axi___05Farlen + 1u, c.m_axi___05Farid});
        if (c.m_axi___05Fawvalid && c.m_axi___05Fawready)
            writes.push_back({cycle, c.m_axi___05Fawaddr, c.m_axi___05Fawlen + 1u, c.m_axi___05Fawid});
    }

    void take_beat(Vcelosia& c, uint64_t cycle) {
        Burst& burst = writes.front();
        uint8_t bytes[kBusBytes];
        std::memcpy(bytes, &c.m_axi___05Fwdata, kBusBytes);
        if (inside(burst.address)) {
            for (int n = 0; n < kBusBytes; n++)
                if (c.m_axi___05Fwstrb >> n & 1) content[burst.address + n] = bytes[n];
        } else {
            response = kDecerr;
        }
        burst.address += kBusBytes;
        if (--burst.beats == 0) {
            answers.push_back({cycle + latency, burst.id, response});
            response = kOkay;
            writes.pop_front();
        }
    }
};

// Returns the near end of a new pseudo-terminal and prints the path of its far end, which stays open: a host may come and go.
int open_terminal() {
    int line = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (line < 0 || grantpt(line) || unlockpt(line)) return -1;
    int far = open(ptsname(line), O_RDWR | O_NOCTTY);
    termios modes;
    if (far < 0 || tcgetattr(far, &modes)) return -1;
    cfmakeraw(&modes);
    tcsetattr(far, TCSANOW, &modes);
    std::printf("%s\n", ptsname(line));
    std::fflush(stdout);
    return line;
}

}  // namespace

int main(int count, char** words) {
    if (count != 6) {
        std::fprintf(stderr, "board: wanted 5 arguments, got %d\n", count - 1);
        return 2;
    }
    VerilatedContext context;
    auto core = std::make_unique<Vcelosia>(&context);
    Memory memory{std::vector<uint8_t>(std::strtoull(words[1], nullptr, 0)), std::strtoull(words[2], nullptr, 0)};
    const uint64_t divisor = std::strtoull(words[3], nullptr, 0);
    Noise noise{std::mt19937(std::strtoul(words[5], nullptr, 0)), uint32_t(std::strtoul(words[4], nullptr, 0))};
    int line = open_terminal();
    if (line < 0) {
        std::fprintf(stderr, "board: no pseudo-terminal\n");
        return 1;
    }
    Sender sender;
    Receiver receiver;
    std::deque<uint8_t> leaving;
    for (uint64_t cycle = 0;; cycle++) {
        if (cycle % kPollCycles == 0) {
            uint8_t buffer[256];
            if (sender.bytes.size() < sizeof buffer) {
                ssize_t got = read(line, buffer, sizeof buffer);
                for (ssize_t n = 0; n < got; n++) noise.pass(buffer[n], sender.bytes);
            }
            while (!leaving.empty()) {
                if (write(line, &leaving.front(), 1) != 1) break;
                leaving.pop_front();
            }
            pollfd input{0, POLLIN, 0};
            char ignored;
            if (cycle % (kPollCycles << 8) == 0 && poll(&input, 1, 0) > 0 && read(0, &ignored, 1) <= 0) return 0;
        }
        core->rst = cycle < 4;
        core->rx = sender.step(divisor);
        memory.offer(*core, cycle);
        core->clk = 0;
        core->eval();
        memory.take(*core, cycle);
        int byte = receiver.step(core->tx, divisor);
        if (byte >= 0) noise.pass(uint8_t(byte), leaving);
        core->clk = 1;
        core->eval();
    }
}
