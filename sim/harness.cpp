// Drives a Verilated core in process: AXI4-Lite accesses, an AXI4 memory with a latency and a
// bandwidth, and a loop that runs until the interrupt. One instance a device, called by ctypes.

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "Vcelosia.h"
#include "verilated.h"

namespace {

constexpr int kBusBytes = CELOSIA_BUS_BYTES;
constexpr uint32_t kOkay = 0;
constexpr uint32_t kDecerr = 3;
constexpr size_t kAddressQueue = 64;

// Verilator writes the second of two underscores as ___05F; it gives ports up to 64 bits as integers, wider ones as arrays of 32-bit words.
template <typename Port>
void put_bytes(Port& port, const uint8_t* from) {
    std::memcpy(&port, from, kBusBytes);
}

template <typename Port>
void get_bytes(const Port& port, uint8_t* to) {
    std::memcpy(to, &port, kBusBytes);
}

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

struct Device {
    VerilatedContext context;
    std::unique_ptr<Vcelosia> core;
    std::vector<uint8_t> memory;
    uint64_t latency;
    // Beats that the memory may move: `rate` of them are added each cycle, in units of 1 / 65536.
    uint64_t rate;
    uint64_t credit = 0;
    uint64_t cycle = 0;

    std::deque<Burst> reads;
    std::deque<Burst> writes;
    std::deque<Answer> answers;
    uint32_t write_response = kOkay;
    bool reading_first = false;
    // A beat was offered and not taken: it stays.
    bool read_held = false;

    Device(uint64_t bytes, uint64_t latency_, uint64_t rate_)
        : core(new Vcelosia(&context)), memory(bytes), latency(latency_), rate(rate_) {
        core->clk = 0;
        core->rst = 1;
        for (int n = 0; n < 4; n++) step();
        core->rst = 0;
        step();
    }

    bool inside(uint64_t address) const { return address + kBusBytes <= memory.size(); }

    // Offers what the memory has in this cycle, takes what the core offers, and moves on.
    void step() {
        Vcelosia& c = *core;
        credit = credit + rate < 2 * 65536 ? credit + rate : 2 * 65536;
        bool read_due = !reads.empty() && reads.front().ready <= cycle;
        bool write_due = !writes.empty() && c.m_axi___05Fwvalid;
        bool may = credit >= 65536;
        bool both = credit >= 2 * 65536;
        // Where there is bandwidth for one of them only, they take turns.
        bool read_now = read_held || (read_due && may && (both || !write_due || reading_first));
        bool write_now = !writes.empty() && may && (both || !read_now);

        c.m_axi___05Farready = reads.size() < kAddressQueue;
        c.m_axi___05Fawready = writes.size() < kAddressQueue;
        c.m_axi___05Frvalid = read_now;
        if (read_now) {
            const Burst& burst = reads.front();
            bool good = inside(burst.address);
            static const uint8_t zeros[kBusBytes] = {};
            put_bytes(c.m_axi___05Frdata, good ? &memory[burst.address] : zeros);
            c.m_axi___05Frid = burst.id;
            c.m_axi___05Frresp = good ? kOkay : kDecerr;
            c.m_axi___05Frlast = burst.beats == 1;
        }
        c.m_axi___05Fwready = write_now;
        bool answer_now = !answers.empty() && answers.front().ready <= cycle;
        c.m_axi___05Fbvalid = answer_now;
        if (answer_now) {
            c.m_axi___05Fbid = answers.front().id;
            c.m_axi___05Fbresp = answers.front().response;
        }
        c.clk = 0;
        c.eval();

        read_held = read_now && !c.m_axi___05Frready;
        if (read_now && !read_held) {
            credit -= 65536;
            reading_first = false;
            Burst& burst = reads.front();
            burst.address += kBusBytes;
            if (--burst.beats == 0) reads.pop_front();
        }
        if (write_now && c.m_axi___05Fwvalid) {
            credit -= 65536;
            reading_first = true;
            take_beat();
        }
        if (answer_now && c.m_axi___05Fbready) answers.pop_front();
        if (c.m_axi___05Farvalid && c.m_axi___05Farready) {
            reads.push_back({cycle + latency, c.m_axi___05Faraddr, c.m_axi___05Farlen + 1u, c.m_axi___05Farid});
        }
        if (c.m_axi___05Fawvalid && c.m_axi___05Fawready) {
            writes.push_back({cycle, c.m_axi___05Fawaddr, c.m_axi___05Fawlen + 1u, c.m_axi___05Fawid});
        }
        c.clk = 1;
        c.eval();
        cycle++;
    }

    void take_beat() {
        Vcelosia& c = *core;
        Burst& burst = writes.front();
        uint8_t bytes[kBusBytes];
        get_bytes(c.m_axi___05Fwdata, bytes);
        if (inside(burst.address)) {
            for (int n = 0; n < kBusBytes; n++) {
                if (c.m_axi___05Fwstrb >> n & 1) memory[burst.address + n] = bytes[n];
            }
        } else {
            write_response = kDecerr;
        }
        burst.address += kBusBytes;
        if (--burst.beats == 0) {
            answers.push_back({cycle + latency, burst.id, write_response});
            write_response = kOkay;
            writes.pop_front();
        }
    }

    // Returns the response, or -1 after `limit` cycles without one.
    int write_register(uint32_t address, uint32_t value, int limit) {
        Vcelosia& c = *core;
        c.s_axil___05Fawaddr = address;
        c.s_axil___05Fwdata = value;
        c.s_axil___05Fwstrb = 15;
        c.s_axil___05Fawvalid = c.s_axil___05Fwvalid = 1;
        c.s_axil___05Fbready = 1;
        for (int n = 0; n < limit; n++) {
            c.eval();
            bool address_taken = c.s_axil___05Fawvalid && c.s_axil___05Fawready;
            bool data_taken = c.s_axil___05Fwvalid && c.s_axil___05Fwready;
            bool answered = c.s_axil___05Fbvalid;
            int response = c.s_axil___05Fbresp;
            step();
            if (address_taken) c.s_axil___05Fawvalid = 0;
            if (data_taken) c.s_axil___05Fwvalid = 0;
            if (answered) {
                c.s_axil___05Fbready = 0;
                return response;
            }
        }
        return -1;
    }

    int read_register(uint32_t address, uint32_t* value, int limit) {
        Vcelosia& c = *core;
        c.s_axil___05Faraddr = address;
        c.s_axil___05Farvalid = 1;
        c.s_axil___05Frready = 1;
        for (int n = 0; n < limit; n++) {
            c.eval();
            bool taken = c.s_axil___05Farvalid && c.s_axil___05Farready;
            bool answered = c.s_axil___05Frvalid;
            int response = c.s_axil___05Frresp;
            *value = c.s_axil___05Frdata;
            step();
            if (taken) c.s_axil___05Farvalid = 0;
            if (answered) {
                c.s_axil___05Frready = 0;
                return response;
            }
        }
        return -1;
    }
};

}  // namespace

extern "C" {

// Returns null where there is not that much memory.
Device* celosia_open(uint64_t bytes, uint64_t latency, uint64_t rate) {
    try {
        return new Device(bytes, latency, rate);
    } catch (const std::bad_alloc&) {
        return nullptr;
    } catch (const std::length_error&) {
        return nullptr;
    }
}

void celosia_close(Device* device) { delete device; }

uint8_t* celosia_memory(Device* device) { return device->memory.data(); }

int celosia_write_register(Device* device, uint32_t address, uint32_t value) {
    return device->write_register(address, value, 1000);
}

int celosia_read_register(Device* device, uint32_t address, uint32_t* value) {
    return device->read_register(address, value, 1000);
}

// Runs until the interrupt, or for `cycles`; returns whether the interrupt is there.
int celosia_wait(Device* device, uint64_t cycles) {
    for (uint64_t n = 0; n < cycles; n++) {
        if (device->core->irq) return 1;
        device->step();
    }
    return device->core->irq;
}

}  // extern "C"
