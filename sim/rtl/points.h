// Takes the place of Verilator's verilated_cov.h: knows the counters of a model that counts, and adds up those of all models.

#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "verilated.h"

namespace celosia {

// What the process has seen of one kind of model.
class Points {
  public:
    // A line each: keys and values of a point, separated by tabs.
    std::string text;
    // The most that one model has counted.
    std::vector<uint32_t> most;

    template <typename... Words>
    void insert(uint32_t* counter, const Words&... words) {
        counters_.push_back(counter);
        if (counters_.size() <= most.size()) return;
        most.push_back(0);
        std::ostringstream line;
        ((line << words << '\t'), ...);
        toggles_.push_back(line.str().find("v_toggle") != std::string::npos);
        text += line.str() + '\n';
    }

    // Returns the counters of the model that was just made.
    std::vector<uint32_t*> taken() {
        std::vector<uint32_t*> counters;
        counters.swap(counters_);
        return counters;
    }

    // What a signal does until here is no change of it.
    void settled(const std::vector<uint32_t*>& counters) const {
        for (size_t n = 0; n < counters.size(); n++) {
            if (toggles_[n]) *counters[n] = 0;
        }
    }

    void add(const std::vector<uint32_t*>& counters) {
        for (size_t n = 0; n < counters.size(); n++) {
            if (*counters[n] > most[n]) most[n] = *counters[n];
        }
    }

  private:
    std::vector<uint32_t*> counters_;
    std::vector<bool> toggles_;
};

// Not inline: an inline variable would be one for all models of a process.
extern Points points;

}  // namespace celosia

#define VL_COVER_INSERT(context, counter, ...) celosia::points.insert(counter, __VA_ARGS__)
