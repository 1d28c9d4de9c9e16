// Netlist of standard cells: simulated without delays, counts the changes of each net.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
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

// Gates of one level and kind, one after the other as their outputs are.
struct Run {
    uint64_t table;
    uint32_t arity, first, last, inputs;
};

struct Simulation {
    std::vector<uint32_t> gate_inputs;
    std::vector<Run> runs;
    std::vector<Register> registers;
    std::vector<Memory> memories;
    std::vector<Port> reads, writes;
    std::vector<uint32_t> shapes;
    std::vector<uint8_t> value;
    std::vector<uint32_t> place;
    std::vector<uint32_t> toggles, changed, inputs, outputs;
    uint64_t cycles = 0;
    bool clock = false, settled = false;

    void set(uint32_t net, uint8_t bit) {
        if (value[net] == bit) return;
        value[net] = bit;
        toggles[net]++;
        settled = false;
    }

    template <uint32_t arity>
    void evaluate(const Run& run) {
        const uint32_t* from = gate_inputs.data() + run.inputs;
        uint8_t* now = value.data();
        for (uint32_t n = run.first; n < run.last; n++, from += arity) {
            uint32_t row = 0;
            for (uint32_t k = 0; k < arity; k++) row |= uint32_t(now[from[k]]) << k;
            uint8_t bit = run.table >> row & 1;
            toggles[n] += bit ^ now[n];
            now[n] = bit;
        }
    }

    // Every gate once, after those that feed it.
    void settle() {
        if (settled) return;
        settled = true;
        for (const Run& run : runs) {
            switch (run.arity) {
                case 0: evaluate<0>(run); break;
                case 1: evaluate<1>(run); break;
                case 2: evaluate<2>(run); break;
                case 3: evaluate<3>(run); break;
                case 4: evaluate<4>(run); break;
                case 5: evaluate<5>(run); break;
                default: evaluate<6>(run);
            }
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
    uint32_t* memory(uint32_t* at) {
        memories.push_back({at[0], at[1], at[2], at[3], std::vector<uint8_t>(std::size_t(at[0]) * at[2])});
        const uint32_t number = memories.size() - 1, width = at[0], bits = at[1], readers = at[4], all = readers + at[5];
        at += 6;
        for (uint32_t n = 0; n < all; n++) {
            uint32_t enables = n < readers ? 1 : width;
            for (uint32_t k = 0; k < enables + bits + width; k++) at[k] = place[at[k]];
            (n < readers ? reads : writes).push_back({number, at, at + enables, at + enables + bits});
            at += enables + bits + width;
        }
        return at;
    }

    // Places the gates in the order of their levels, and the nets that gates drive behind all others.
    // Returns whether every gate has a level: one above those that feed it.
    bool order(const std::vector<Gate>& gates, uint32_t nets) {
        std::vector<int64_t> driver(nets, -1);
        for (uint32_t n = 0; n < gates.size(); n++) driver[gates[n].output] = n;
        std::vector<std::vector<uint32_t>> sinks(gates.size());
        std::vector<uint32_t> open(gates.size()), level(gates.size()), arity(gates.size()), sorted;
        for (uint32_t n = 0; n < gates.size(); n++) {
            for (uint32_t k = 0; k < kInputs; k++) {
                const uint32_t net = gates[n].inputs[k];
                if (net) arity[n] = k + 1;
                if (driver[net] < 0) continue;
                sinks[driver[net]].push_back(n);
                open[n]++;
            }
            if (!open[n]) sorted.push_back(n);
        }
        for (std::size_t at = 0; at < sorted.size(); at++) {
            for (uint32_t sink : sinks[sorted[at]]) {
                level[sink] = std::max(level[sink], level[sorted[at]] + 1);
                if (--open[sink] == 0) sorted.push_back(sink);
            }
        }
        auto key = [&](uint32_t n) { return std::tuple(level[n], arity[n], gates[n].table); };
        std::stable_sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
        place.resize(nets);
        uint32_t next = 0;
        for (uint32_t net = 0; net < nets; net++) {
            if (driver[net] < 0) place[net] = next++;
        }
        for (uint32_t n : sorted) place[gates[n].output] = next++;
        for (std::size_t at = 0; at < sorted.size(); at++) {
            const uint32_t n = sorted[at], net = place[gates[n].output];
            if (!at || key(n) != key(sorted[at - 1]))
                runs.push_back({gates[n].table, arity[n], net, net, uint32_t(gate_inputs.size())});
            runs.back().last = net + 1;
            for (uint32_t k = 0; k < arity[n]; k++) gate_inputs.push_back(place[gates[n].inputs[k]]);
        }
        return sorted.size() == gates.size();
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
    std::vector<Gate> all;
    for (uint32_t n = 0; n < gates; n++, pins += kInputs + 1) {
        all.push_back({tables[n], {}, pins[kInputs]});
        std::copy(pins, pins + kInputs, all.back().inputs);
    }
    if (!s.order(all, nets)) return 0;
    for (uint32_t n = 0; n < sizes[4]; n++) s.inputs.push_back(s.place[ports[n]]);
    for (uint32_t n = sizes[4]; n < sizes[4] + sizes[5]; n++) s.outputs.push_back(s.place[ports[n]]);
    for (uint32_t n = 0; n < registers; n++, flops += 3) {
        s.registers.push_back({s.place[flops[0]], s.place[flops[1]], s.place[flops[2]]});
        s.value[s.registers.back().inverse] = flops[2] != 0;
    }
    s.shapes.assign(shapes, shapes + length);
    for (uint32_t* at = s.shapes.data(); at < s.shapes.data() + length;) at = s.memory(at);
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
    for (uint32_t at : s.place) *toggles++ = s.toggles[at];
    s.toggles.assign(s.toggles.size(), 0);
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
