// External memory behind the AXI4 port of hw/link/system.py: a fixed latency, a beat each cycle.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "Vcelosia.h"
#include "bursts.h"

struct Memory {
    std::vector<uint8_t> content;
    uint64_t latency;
    std::deque<Burst> reads;
    std::deque<Burst> writes;
    std::deque<Answer> answers;
    uint32_t response = kOkay;

    // Arguments: bytes, latency in cycles.
    static constexpr int kArguments = 2;
    explicit Memory(char** words)
        : content(std::strtoull(words[0], nullptr, 0)), latency(std::strtoull(words[1], nullptr, 0)) {}

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
