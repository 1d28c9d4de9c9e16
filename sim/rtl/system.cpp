// Drives a Verilated LiteX system in process: a clock, and the bytes of its host's line.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "Vsoc.h"
#include "verilated.h"

// A complaint of the memory chip, which may have several in a cycle.
void vl_finish(const char*, int, const char*) { Verilated::threadContextp()->gotFinish(true); }

namespace {

struct System {
    VerilatedContext context;
    std::unique_ptr<Vsoc> soc = std::make_unique<Vsoc>(&context);
    std::deque<uint8_t> to;
    uint64_t cycle = 0;
    // Time, half a cycle of the bus and of the core, and the next edge of the core's clock.
    uint64_t now = 0, bus, core, edge;

    System(uint64_t bus, uint64_t core) : bus(bus), core(core), edge(core) {}

    void pass() {
        for (now += bus; edge <= now; edge += core) {
            soc->core_clk = !soc->core_clk;
            soc->eval();
        }
    }

    void tick() {
        soc->sys_clk = 0;
        soc->eval();
        pass();
        soc->sys_clk = 1;
        soc->eval();
        pass();
        cycle++;
    }

    // Runs one cycle; returns the byte that left the system in it, or -1.
    int step() {
        soc->serial_sink_valid = !to.empty();
        soc->serial_sink_data = to.empty() ? 0 : to.front();
        soc->serial_source_ready = 1;
        soc->sys_clk = 0;
        soc->eval();
        const int byte = soc->serial_source_valid ? soc->serial_source_data : -1;
        if (!to.empty() && soc->serial_sink_ready) to.pop_front();
        tick();
        return byte;
    }
};

}  // namespace

extern "C" {

// Half a cycle of the bus and of the core, in any unit.
System* system_open(uint64_t bus, uint64_t core) { return new System(bus, core); }

void system_close(System* system) { delete system; }

bool system_ended(const System* system) { return system->context.gotFinish(); }

uint64_t system_cycle(const System* system) { return system->cycle; }

void system_send(System* system, const uint8_t* bytes, size_t count) { system->to.insert(system->to.end(), bytes, bytes + count); }

// Runs until `count` bytes have left the system, or some and none for `gap` cycles, or `cycles` have passed; returns their number.
size_t system_receive(System* system, uint8_t* bytes, size_t count, uint64_t gap, uint64_t cycles) {
    size_t got = 0;
    for (uint64_t quiet = 0; cycles-- && !system_ended(system) && got < count && !(got && quiet >= gap); quiet++) {
        const int byte = system->step();
        if (byte < 0) continue;
        bytes[got++] = uint8_t(byte);
        quiet = 0;
    }
    return got;
}
}
