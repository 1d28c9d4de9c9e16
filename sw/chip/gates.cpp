// Netlist of standard cells: simulated by events without delays, counts the changes of each net.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

constexpr uint32_t kInputs = 6;

// A gate: bits of its truth table are addressed by its inputs.
struct Gate {
    uint64_t table;
    uint32_t inputs[kInputs];
    uint32_t output;
};

// A flip-flop of the only clock; net 0, which stays 0, where an output is open.
struct Register {
    uint32_t data, state, inverse;
};

struct Port {
    uint32_t memory;
    const uint32_t *enables, *address, *data;
    uint32_t last = 0;
};

struct Memory {
    uint32_t width, address_bits, words, offset;
    std::vector<uint8_t> bits;
    uint64_t read = 0, written = 0;
};

struct Simulation {
    std::vector<Gate> gates;
    std::vector<Register> registers;
    std::vector<Memory> memories;
    std::vector<Port> reads, writes;
    std::vector<uint32_t> shapes;
    std::vector<uint8_t> value, queued;
    std::vector<uint32_t> first, sinks, level;
    std::vector<std::vector<uint32_t>> queue;
    std::vector<uint32_t> toggles, changed, inputs, outputs;
    uint64_t cycles = 0;
    bool clock = false;

    void set(uint32_t net, uint8_t bit) {
        if (value[net] == bit) return;
        value[net] = bit;
        toggles[net]++;
        for (uint32_t n = first[net]; n < first[net + 1]; n++) wake(sinks[n]);
    }

    void wake(uint32_t gate) {
        if (queued[gate]) return;
        queued[gate] = 1;
        queue[level[gate]].push_back(gate);
    }

    void settle() {
        for (auto& gates_now : queue) {
            for (uint32_t n : gates_now) {
                const Gate& gate = gates[n];
                uint32_t row = 0;
                for (uint32_t k = 0; k < kInputs; k++) row |= uint32_t(value[gate.inputs[k]]) << k;
                queued[n] = 0;
                set(gate.output, gate.table >> row & 1);
            }
            gates_now.clear();
        }
    }

    uint32_t word(const Port& port) const {
        const Memory& memory = memories[port.memory];
        uint32_t number = 0;
        for (uint32_t n = 0; n < memory.address_bits; n++) number |= uint32_t(value[port.address[n]]) << n;
        return number - memory.offset;
    }

    // What memories give is what they held before the edge.
    void edge() {
        changed.clear();
        cycles++;
        for (const Register& r : registers) {
            if (value[r.data] == (r.state ? value[r.state] : !value[r.inverse])) continue;
            changed.push_back(r.state);
            changed.push_back(r.inverse);
        }
        for (Port& port : reads) {
            Memory& memory = memories[port.memory];
            if (!value[port.enables[0]]) continue;
            uint32_t number = word(port);
            bool is_other = number != port.last;
            port.last = number;
            for (uint32_t n = 0; n < memory.width; n++) {
                uint8_t bit = number < memory.words ? memory.bits[std::size_t(number) * memory.width + n] : 0;
                if (value[port.data[n]] == bit) continue;
                changed.push_back(port.data[n]);
                is_other = true;
            }
            if (is_other) memory.read += memory.width;
        }
        for (const Port& port : writes) {
            Memory& memory = memories[port.memory];
            uint32_t number = word(port);
            for (uint32_t n = 0; n < memory.width; n++) {
                if (!value[port.enables[n]]) continue;
                memory.written++;
                if (number < memory.words) memory.bits[std::size_t(number) * memory.width + n] = value[port.data[n]];
            }
        }
        for (uint32_t net : changed) {
            if (net) set(net, !value[net]);
        }
    }

    // Adds a memory: width, bits of addresses, words, offset, numbers of ports that read and that write, and
    // the nets of each: enables, address, data. Returns what comes after it.
    const uint32_t* memory(const uint32_t* at) {
        memories.push_back({at[0], at[1], at[2], at[3], std::vector<uint8_t>(std::size_t(at[0]) * at[2])});
        const uint32_t number = memories.size() - 1, width = at[0], bits = at[1], readers = at[4], all = readers + at[5];
        at += 6;
        for (uint32_t n = 0; n < all; n++) {
            uint32_t enables = n < readers ? 1 : width;
            (n < readers ? reads : writes).push_back({number, at, at + enables, at + enables + bits});
            at += enables + bits + width;
        }
        return at;
    }

    // Returns whether every gate has a level: one above those that feed it.
    bool order(const std::vector<int64_t>& driver) {
        first.assign(value.size() + 1, 0);
        for (const Gate& gate : gates)
            for (uint32_t net : gate.inputs) first[net + 1]++;
        for (std::size_t n = 0; n < value.size(); n++) first[n + 1] += first[n];
        sinks.resize(first.back());
        std::vector<uint32_t> next(first.begin(), first.end() - 1);
        for (uint32_t n = 0; n < gates.size(); n++)
            for (uint32_t net : gates[n].inputs) sinks[next[net]++] = n;
        queued.assign(gates.size(), 0);
        std::vector<uint32_t> open(gates.size(), 0), ready;
        level.assign(gates.size(), 0);
        for (uint32_t n = 0; n < gates.size(); n++) {
            for (uint32_t net : gates[n].inputs) open[n] += driver[net] >= 0;
            if (!open[n]) ready.push_back(n);
        }
        for (std::size_t n = 0; n < ready.size(); n++) {
            uint32_t net = gates[ready[n]].output, deep = level[ready[n]] + 1;
            for (uint32_t k = first[net]; k < first[net + 1]; k++) {
                uint32_t sink = sinks[k];
                if (level[sink] < deep) level[sink] = deep;
                if (--open[sink] == 0) ready.push_back(sink);
            }
        }
        uint32_t deepest = 0;
        for (uint32_t one : level) deepest = one > deepest ? one : deepest;
        queue.resize(deepest + 1);
        return ready.size() == gates.size();
    }
};

Simulation* simulation = nullptr;

}  // namespace

extern "C" {

// Takes a netlist, see `energy.py`; returns whether no gate is in a loop.
int celosia_chip_open(const uint32_t* sizes, const uint64_t* tables, const uint32_t* pins, const uint32_t* flops,
                      const uint32_t* shapes, const uint32_t* ports) {
    const uint32_t nets = sizes[0], gates = sizes[1], registers = sizes[2], length = sizes[3];
    delete simulation;
    Simulation& s = *(simulation = new Simulation);
    s.value.assign(nets, 0);
    s.value[1] = 1;
    s.toggles.assign(nets, 0);
    s.inputs.assign(ports, ports + sizes[4]);
    s.outputs.assign(ports + sizes[4], ports + sizes[4] + sizes[5]);
    std::vector<int64_t> driver(nets, -1);
    for (uint32_t n = 0; n < gates; n++, pins += kInputs + 1) {
        Gate gate{tables[n], {}, pins[kInputs]};
        for (uint32_t k = 0; k < kInputs; k++) gate.inputs[k] = pins[k];
        driver[gate.output] = n;
        s.gates.push_back(gate);
    }
    for (uint32_t n = 0; n < registers; n++, flops += 3) {
        s.registers.push_back({flops[0], flops[1], flops[2]});
        s.value[flops[2]] = flops[2] != 0;
    }
    s.shapes.assign(shapes, shapes + length);
    for (const uint32_t* at = s.shapes.data(); at < s.shapes.data() + length;) at = s.memory(at);
    if (!s.order(driver)) return 0;
    for (uint32_t n = 0; n < gates; n++) s.wake(n);
    s.settle();
    return 1;
}

// Called by the Verilog of the ports when an input or the clock, its lowest bit, changes.
void celosia_chip(const uint32_t* inputs, uint32_t* outputs) {
    Simulation& s = *simulation;
    for (std::size_t n = 0; n < s.inputs.size(); n++) s.set(s.inputs[n], inputs[(n + 1) / 32] >> (n + 1) % 32 & 1);
    s.settle();
    bool clock = inputs[0] & 1;
    if (clock && !s.clock) {
        s.edge();
        s.settle();
    }
    s.clock = clock;
    for (std::size_t n = 0; n < s.outputs.size(); n++) {
        uint32_t bit = uint32_t(1) << n % 32;
        outputs[n / 32] = (outputs[n / 32] & ~bit) | (s.value[s.outputs[n]] ? bit : 0);
    }
}

// Gives and clears the changes of the nets, and bits read and written of each memory; returns the cycles.
uint64_t celosia_chip_take(uint32_t* toggles, uint64_t* accesses) {
    Simulation& s = *simulation;
    for (uint32_t& count : s.toggles) {
        *toggles++ = count;
        count = 0;
    }
    for (Memory& memory : s.memories) {
        *accesses++ = memory.read;
        *accesses++ = memory.written;
        memory.read = memory.written = 0;
    }
    uint64_t cycles = s.cycles;
    s.cycles = 0;
    return cycles;
}

}  // extern "C"
