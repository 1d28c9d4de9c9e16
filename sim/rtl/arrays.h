// Memories of a Verilated core that were made public: what there is, and flipping bits of them.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verilated.h"
#include "verilated_syms.h"
#include "verilated_sym_props.h"

namespace {

struct Array {
    std::string name;
    uint8_t* data;
    uint64_t words;
    uint32_t word_bytes;
    uint32_t bits;
};

// Returns the public arrays of one dimension. Versions of Verilator disagree which of the two
// dimensions, words and bits, comes first: the size in bytes tells.
inline std::vector<Array> arrays(VerilatedContext& context) {
    std::vector<Array> found;
    for (const auto& scope : *context.scopeNameMap()) {
        const VerilatedVarNameMap* vars = scope.second->varsp();
        if (!vars) continue;
        for (const auto& entry : *vars) {
            const VerilatedVar& var = entry.second;
            if (var.udims() != 1) continue;
            const uint32_t bytes = var.entSize();
            const uint64_t words = var.totalSize() / bytes;
            const uint64_t first = var.elements(0), second = var.elements(1);
            found.push_back({std::string(scope.first) + "." + var.name(), static_cast<uint8_t*>(var.datap()), words, bytes,
                             static_cast<uint32_t>(first == words ? second : first)});
        }
    }
    return found;
}

}  // namespace
