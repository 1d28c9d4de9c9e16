// A Verilated board: link, core and memory, and the serial line on a pseudo-terminal, whose path is printed first. Runs until its
// standard input ends.
//
// Arguments: cycles of a bit, damaged bytes in a million, seed, then those of the memory.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "Vcelosia.h"
#include "line.h"
#include "sdram_chip.h"
#include "verilated.h"

namespace {

constexpr int kArguments = 3;
constexpr uint64_t kPollCycles = 256;

uint64_t number(const char* word) { return std::strtoull(word, nullptr, 0); }

}  // namespace

int main(int count, char** words) {
    constexpr int wanted = kArguments + Memory::kArguments;
    if (count != 1 + wanted) {
        std::fprintf(stderr, "board: wanted %d arguments, got %d\n", wanted, count - 1);
        return 2;
    }
    VerilatedContext context;
    auto core = std::make_unique<Vcelosia>(&context);
    Memory memory(words + 1 + kArguments);
    int terminal = open_terminal();
    if (terminal < 0) {
        std::fprintf(stderr, "board: no pseudo-terminal\n");
        return 1;
    }
    Line line{terminal, number(words[1]), {std::mt19937(uint32_t(number(words[3]))), uint32_t(number(words[2]))}, {}, {}, {}};
    for (uint64_t cycle = 0;; cycle++) {
        if (cycle % kPollCycles == 0) line.poll_terminal();
        if (cycle % (kPollCycles << 8) == 0 && input_ended()) return 0;
        core->rx = line.send();
        memory.offer(*core, cycle);
        core->clk = 0;
        core->eval();
        memory.take(*core, cycle);
        line.receive(core->tx);
        core->clk = 1;
        core->eval();
    }
}
