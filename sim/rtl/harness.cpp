// Drives a Verilated core, or several in a pod, in process: AXI4-Lite accesses, an AXI4 memory with
// a latency and a bandwidth, and a loop that runs until an interrupt. One instance a device, called by ctypes.

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "Vcelosia.h"
#include "bursts.h"
#include "disturb.h"
#include "verilated.h"
#ifdef CELOSIA_ARRAYS
#include "arrays.h"
#endif
#ifdef CELOSIA_COVERAGE
#include "points.h"
#endif
#ifdef CELOSIA_WAVES
#include "verilated_fst_c.h"
#endif

namespace {

// A memory behind one port, with a latency and a bandwidth.
struct Port {
    Signals s;
    std::vector<uint8_t>& memory;
    Disturbance& disturbance;
    uint64_t latency;
    // Beats that the port may move: `rate` of them are added each cycle, in units of 1 / 65536.
    uint64_t rate;
    uint64_t credit = 0;
    // Bits of an address that count: fewer than all where memory repeats.
    uint64_t mask = ~uint64_t(0);

    std::deque<Burst> reads = {};
    std::deque<Burst> writes = {};
    std::deque<Answer> answers = {};
    uint32_t write_response = kOkay;
    bool reading_first = false;
    bool read_now = false, write_now = false, answer_now = false;
    // A beat was offered and not taken: it stays.
    bool read_held = false;
    bool answer_held = false;
    Watch watch = {};

    bool inside(uint64_t address) const { return address + kBusBytes <= memory.size(); }

    bool quiet() const {
        return reads.empty() && writes.empty() && answers.empty() && !*s.arvalid && !*s.awvalid && !*s.wvalid;
    }

    // Offers what the memory has in this cycle.
    void offer(uint64_t cycle) {
        credit = credit + rate < 2 * 65536 ? credit + rate : 2 * 65536;
        bool read_due = !reads.empty() && reads.front().ready <= cycle && !disturbance.rests(kR);
        bool write_may = !writes.empty() && !disturbance.rests(kW);
        bool write_due = write_may && *s.wvalid;
        bool may = credit >= 65536;
        bool both = credit >= 2 * 65536;
        // Where there is bandwidth for one of them only, they take turns.
        read_now = read_held || (read_due && may && (both || !write_due || reading_first));
        write_now = write_may && may && (both || !read_now);

        *s.arready = reads.size() < kAddressQueue && !disturbance.rests(kAr);
        *s.awready = writes.size() < kAddressQueue && !disturbance.rests(kAw);
        *s.rvalid = read_now;
        if (read_now) {
            const Burst& burst = reads.front();
            bool good = inside(burst.address);
            static const uint8_t zeros[kBusBytes] = {};
            std::memcpy(s.rdata, good ? &memory[burst.address] : zeros, kBusBytes);
            *s.rid = burst.id;
            *s.rresp = good ? kOkay : kDecerr;
            if (disturbance.refuse_beat == 1) *s.rresp = disturbance.response;
            *s.rlast = burst.beats == 1;
        }
        *s.wready = write_now;
        bool answer_due = !answers.empty() && answers.front().ready <= cycle;
        answer_now = answer_held || (answer_due && !disturbance.rests(kB));
        *s.bvalid = answer_now;
        if (answer_now) {
            *s.bid = answers.front().id;
            *s.bresp = answers.front().response;
        }
    }

    // Takes what the core offers; `watched` if its channels pause or may.
    void take(uint64_t cycle, bool watched) {
        if (watched) watch.look(s);
        read_held = read_now && !*s.rready;
        if (read_now && !read_held) {
            credit -= 65536;
            reading_first = false;
            Burst& burst = reads.front();
            if (disturbance.refuse_beat && --disturbance.refuse_beat == 0)
                disturbance.refuse(1, burst.address, burst.id);
            burst.address += kBusBytes;
            if (--burst.beats == 0) reads.pop_front();
        }
        if (write_now && *s.wvalid) {
            credit -= 65536;
            reading_first = true;
            take_beat(cycle, watched);
        }
        answer_held = answer_now && !*s.bready;
        if (answer_now && !answer_held) answers.pop_front();
        if (*s.arvalid && *s.arready) reads.push_back({cycle + latency, *s.araddr & mask, *s.arlen + 1u, *s.arid});
        if (*s.awvalid && *s.awready) writes.push_back({cycle, *s.awaddr & mask, *s.awlen + 1u, *s.awid});
    }

    void take_beat(uint64_t cycle, bool watched) {
        Burst& burst = writes.front();
        uint8_t bytes[kBusBytes];
        std::memcpy(bytes, s.wdata, kBusBytes);
        if (watched) watch.beat(*s.wlast, burst.beats == 1);
        if (inside(burst.address)) {
            uint64_t strobes = s.strobes();
            for (int n = 0; n < kBusBytes; n++) {
                if (strobes >> n & 1) memory[burst.address + n] = bytes[n];
            }
        } else {
            write_response = kDecerr;
        }
        burst.address += kBusBytes;
        if (--burst.beats == 0) {
            if (disturbance.refuse_answer && --disturbance.refuse_answer == 0) {
                disturbance.refuse(2, burst.address - kBusBytes, burst.id);
                write_response = disturbance.response;
            }
            answers.push_back({cycle + latency, burst.id, write_response});
            write_response = kOkay;
            writes.pop_front();
        }
    }
};

struct Device {
    VerilatedContext context;
    std::unique_ptr<Vcelosia> core;
    std::vector<uint8_t> memory;
    uint64_t cycle = 0;
    Disturbance disturbance;
    std::vector<Port> ports;
    // The watch costs time: it looks only where channels pause or may.
    bool disturbed = false;

#ifdef CELOSIA_WAVES
    // Cycles from `first_wave` up to the one before `last_wave` are written.
    std::unique_ptr<VerilatedFstC> waves;
    uint64_t first_wave = 0, last_wave = 0;

    // Writes all signals as they are at a time, in nanoseconds.
    void dump(uint64_t time) {
        if (waves && cycle >= first_wave && cycle < last_wave) waves->dump(time);
    }
#endif

    // Before a model is made, its context has to know whether there will be waves.
    static VerilatedContext* prepared(VerilatedContext& context) {
#ifdef CELOSIA_WAVES
        context.traceEverOn(true);
#endif
        return &context;
    }

    Device(uint64_t bytes, uint64_t latency, uint64_t rate) : core(new Vcelosia(prepared(context))), memory(bytes) {
        for (const Signals& signals : {CELOSIA_PORTS}) ports.push_back({signals, memory, disturbance, latency, rate});
        core->clk = 0;
        core->rst = 1;
        for (int n = 0; n < 4; n++) step();
        core->rst = 0;
        step();
#ifdef CELOSIA_COVERAGE
        counters = celosia::points.taken();
        celosia::points.settled(counters);
#endif
    }

#ifdef CELOSIA_COVERAGE
    std::vector<uint32_t*> counters;
    ~Device() { celosia::points.add(counters); }
#endif

    void step() {
        for (Port& port : ports) port.offer(cycle);
        core->clk = 0;
        core->eval();
#ifdef CELOSIA_WAVES
        dump(cycle * CELOSIA_WAVES);
#endif
        for (Port& port : ports) port.take(cycle, disturbed);
        core->clk = 1;
        core->eval();
#ifdef CELOSIA_WAVES
        dump(cycle * CELOSIA_WAVES + CELOSIA_WAVES / 2);
#endif
        cycle++;
    }

    // Returns the response, or -1 after `limit` cycles without one; it may be taken after `rest` cycles.
    int write_register(uint32_t address, uint32_t value, int limit, uint32_t strobes = 15, int rest = 0) {
        Vcelosia& c = *core;
        c.s_axil___05Fawaddr = address;
        c.s_axil___05Fwdata = value;
        c.s_axil___05Fwstrb = strobes;
        c.s_axil___05Fawvalid = c.s_axil___05Fwvalid = 1;
        for (int n = 0; n < limit; n++) {
            c.s_axil___05Fbready = n >= rest;
            c.eval();
            bool address_taken = c.s_axil___05Fawvalid && c.s_axil___05Fawready;
            bool data_taken = c.s_axil___05Fwvalid && c.s_axil___05Fwready;
            bool answered = c.s_axil___05Fbvalid && c.s_axil___05Fbready;
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

    int read_register(uint32_t address, uint32_t* value, int limit, int rest = 0) {
        Vcelosia& c = *core;
        c.s_axil___05Faraddr = address;
        c.s_axil___05Farvalid = 1;
        for (int n = 0; n < limit; n++) {
            c.s_axil___05Frready = n >= rest;
            c.eval();
            bool taken = c.s_axil___05Farvalid && c.s_axil___05Farready;
            bool answered = c.s_axil___05Frvalid && c.s_axil___05Frready;
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

// The same with strobes, the answer taken after `rest` cycles at the earliest.
int celosia_write_part(Device* device, uint32_t address, uint32_t value, uint32_t strobes, int rest) {
    return device->write_register(address, value, 1000, strobes, rest);
}

int celosia_read_late(Device* device, uint32_t address, uint32_t* value, int rest) {
    return device->read_register(address, value, 1000, rest);
}

// Lets memory, a power of two of bytes, repeat over all addresses.
void celosia_repeat(Device* device) {
    for (Port& port : device->ports) port.mask = device->memory.size() - 1;
}

// Runs until an interrupt, a bit of `mask` for each core, or for `cycles`; returns whether one is there.
int celosia_wait_for(Device* device, uint64_t cycles, uint32_t mask) {
    for (uint64_t n = 0; n < cycles; n++) {
        if (device->core->irq & mask) return 1;
        device->step();
    }
    return (device->core->irq & mask) != 0;
}

// The same for any of the interrupts.
int celosia_wait(Device* device, uint64_t cycles) { return celosia_wait_for(device, cycles, ~0u); }

// Lets the channels AR, R, AW, W and B rest, each with its chance in units of 1 / 65536.
void celosia_pause(Device* device, uint64_t seed, const uint32_t* chances) {
    device->disturbance.pause(seed, chances);
    device->disturbed = true;
}

// Refuses the beat read and the burst written that come as the n-th from now; 0 for none.
void celosia_refuse(Device* device, uint64_t beat, uint64_t answer, uint32_t response) {
    Disturbance& d = device->disturbance;
    d.refuse_beat = beat;
    d.refuse_answer = answer;
    d.response = response;
    d.refused = 0;
}

// Returns what was refused: 0 nothing, 1 a beat read, 2 a burst written, and the address of its last beat.
uint32_t celosia_refused(Device* device, uint64_t* address, uint32_t* id) {
    *address = device->disturbance.refused_address;
    *id = device->disturbance.refused_id;
    return device->disturbance.refused;
}

// Returns the rules of AXI4 that the core has broken, bits of `Rule`.
uint32_t celosia_broken(Device* device) {
    uint32_t broken = 0;
    for (const Port& port : device->ports) broken |= port.watch.broken;
    return broken;
}

// Runs for `cycles`; returns whether nothing was asked for and nothing is under way on the bus.
int celosia_quiet(Device* device, uint64_t cycles) {
    bool quiet = true;
    for (uint64_t n = 0; n < cycles; n++) {
        for (const Port& port : device->ports) quiet &= port.quiet();
        device->step();
    }
    return quiet;
}

#ifdef CELOSIA_WAVES
// Writes the waves of these cycles to a file; returns whether it could be opened.
int celosia_waves(Device* device, const char* path, uint64_t first, uint64_t last) {
    device->waves = std::make_unique<VerilatedFstC>();
    device->first_wave = first;
    device->last_wave = last;
    device->waves->set_time_unit("1ns");
    device->waves->set_time_resolution("1ns");
    device->core->trace(device->waves.get(), 99);
    device->waves->open(path);
    return device->waves->isOpen();
}
#endif

#ifdef CELOSIA_ARRAYS
// Gives the n-th memory: its words, their bits, and its name up to `room` bytes; 0 behind the last.
int celosia_array(Device* device, uint32_t n, uint64_t* words, uint32_t* bits, char* name, uint32_t room) {
    const std::vector<Array> found = arrays(device->context);
    if (n >= found.size()) return 0;
    *words = found[n].words;
    *bits = found[n].bits;
    std::strncpy(name, found[n].name.c_str(), room - 1);
    name[room - 1] = 0;
    return 1;
}

// Changes one bit of a word of the n-th memory.
void celosia_flip(Device* device, uint32_t n, uint64_t word, uint32_t bit) {
    const Array array = arrays(device->context)[n];
    array.data[word * array.word_bytes + bit / 8] ^= 1 << bit % 8;
}
#endif

}  // extern "C"
