// An AXI4 port of a Verilated core, and what the memory behind it keeps of the bursts under way.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "verilated.h"

constexpr int kBusBytes = CELOSIA_BUS_BYTES;
constexpr uint32_t kOkay = 0;
constexpr uint32_t kDecerr = 3;
constexpr size_t kAddressQueue = 64;

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

// The signals of a port. Verilator gives data up to 64 bits as integers, wider ones as arrays of 32-bit words.
struct Signals {
    CData *arvalid, *arready, *arid;
    IData* araddr;
    CData *arlen, *arsize, *arburst;
    CData *rvalid, *rready, *rid;
    void* rdata;
    CData *rresp, *rlast;
    CData *awvalid, *awready, *awid;
    IData* awaddr;
    CData *awlen, *awsize, *awburst;
    CData *wvalid, *wready;
    void *wdata, *wstrb;
    CData* wlast;
    CData *bvalid, *bready, *bid, *bresp;

    uint64_t strobes() const {
        uint64_t bits = 0;
        std::memcpy(&bits, wstrb, (kBusBytes + 7) / 8);
        return bits;
    }
};

#ifndef CELOSIA_PORTS
#define CELOSIA_PORTS CELOSIA_SIGNALS(core->m_axi)
#endif

// Verilator writes the second of two underscores as ___05F.
#define CELOSIA_SIGNALS(port)                                                                                      \
    Signals{&port##___05Farvalid, &port##___05Farready, &port##___05Farid,    &port##___05Faraddr, &port##___05Farlen,     \
     &port##___05Farsize,  &port##___05Farburst, &port##___05Frvalid,  &port##___05Frready, &port##___05Frid,       \
     &port##___05Frdata,   &port##___05Frresp,   &port##___05Frlast,   &port##___05Fawvalid, &port##___05Fawready,  \
     &port##___05Fawid,    &port##___05Fawaddr,  &port##___05Fawlen,   &port##___05Fawsize, &port##___05Fawburst,   \
     &port##___05Fwvalid,  &port##___05Fwready,  &port##___05Fwdata,   &port##___05Fwstrb,  &port##___05Fwlast,     \
     &port##___05Fbvalid,  &port##___05Fbready,  &port##___05Fbid,     &port##___05Fbresp}
