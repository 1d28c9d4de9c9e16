// An SDRAM chip of single data rate, 16 data pins and four banks, at the pins of hw/boards/machine.py, that judges who drives it.
//
// Written from data sheets alone, as sdram.py; a breach of a rule ends the simulation and is named on standard error.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>

#include "Vcelosia.h"

struct Memory {
    // Arguments: widths of rows and columns, times of the data sheet in cycles, cycles by which words come late.
    static constexpr int kArguments = 13;
    explicit Memory(char** words) {
        uint64_t* fields[kArguments] = {&row_bits, &column_bits, &rcd, &rp,     &ras,     &rc,  &rrd,
                                        &rfc,      &wr,          &mrd, &startup, &refresh, &late};
        for (int n = 0; n < kArguments; n++) *fields[n] = std::strtoull(words[n], nullptr, 0);
        content.resize(size_t(1) << (row_bits + column_bits + 2));
        words_out.assign(late, kNoWord);
    }

    // What is on the data pins from the last edge to the next; where there is no word, what no test writes.
    void offer(Vcelosia& c, uint64_t cycle) {
        c.pins___05Fdq_i = shown == kNoWord ? uint16_t(cycle * 40503 ^ 0x5A5A) : uint16_t(shown);
    }

    void take(Vcelosia& c, uint64_t cycle) {
        now = cycle;
        check_pins(c);
        if (!c.pins___05Fcs_n) obey(c, c.pins___05Fras_n << 2 | c.pins___05Fcas_n << 1 | c.pins___05Fwe_n);
        if (writing.left) write_word(c);
        if (reading.left) read_word();
        if (in_use && now > 9 * refresh) want("tREFI", refreshes * refresh + 9 * refresh >= now - used_since);
        masks[now % 4] = c.pins___05Fdqm;
        words_out.push_back(word_at_next_edge());
        shown = words_out.front();
        words_out.pop_front();
    }

  private:
    static constexpr int32_t kNoWord = -1;
    static constexpr int64_t kLongAgo = -(int64_t(1) << 40);
    static constexpr uint32_t kAllBanks = 1 << 10;

    struct Bank {
        bool open = false;
        bool ready = false;
        uint32_t row = 0;
        int64_t activated = kLongAgo;
        int64_t precharged = kLongAgo;
        int64_t written = kLongAgo;
    };

    struct Burst {
        uint32_t bank = 0;
        uint32_t row = 0;
        uint32_t column = 0;
        uint32_t done = 0;
        uint32_t left = 0;
    };

    // A word on its way out: the edge at which it is on the pins.
    struct Word {
        int64_t edge;
        uint16_t value;
        uint32_t bank;
    };

    uint64_t row_bits, column_bits, rcd, rp, ras, rc, rrd, rfc, wr, mrd, startup, refresh, late;
    std::vector<uint16_t> content;
    std::deque<int32_t> words_out;
    int32_t shown = kNoWord;
    std::deque<Word> out;
    Bank banks[4];
    Burst writing, reading;
    uint32_t burst_words = 0, latency = 0;
    uint32_t masks[4] = {};
    int64_t now = 0, activated = kLongAgo, mode_set = kLongAgo, refreshed = kLongAgo, drove = kLongAgo, driven = kLongAgo;
    int64_t used_since = 0;
    uint64_t refreshes = 0;
    bool in_use = false;

    void want(const char* rule, bool holds) const {
        if (holds) return;
        std::fprintf(stderr, "sdram: %s in cycle %lld\n", rule, static_cast<long long>(now));
        std::exit(3);
    }

    void want_time(const char* rule, int64_t since, uint64_t cycles) const { want(rule, now - since >= int64_t(cycles)); }

    // Both sides may not drive the data pins at once, nor take over without a pause.
    void check_pins(Vcelosia& c) {
        bool drives = !out.empty() && out.front().edge == now;
        want("contention", !(drives && c.pins___05Fdq_oe));
        if (c.pins___05Fdq_oe) {
            want("tHZ", drove < now - 1);
            driven = now;
        }
        if (drives) {
            want("tLZ", driven < now - 1);
            drove = now;
            out.pop_front();
        }
    }

    void obey(Vcelosia& c, uint32_t command) {
        if (command == 7) return;
        want("CKE", c.pins___05Fcke);
        want("startup", now >= int64_t(startup));
        want_time("tMRD", mode_set, mrd);
        want_time("tRFC", refreshed, rfc);
        uint32_t a = c.pins___05Fa, ba = c.pins___05Fba;
        switch (command) {
            case 0:
                set_mode(a, ba);
                break;
            case 1:
                do_refresh();
                break;
            case 2:
                for (uint32_t n = 0; n < 4; n++)
                    if (a & kAllBanks || ba == n) precharge(n);
                break;
            case 3:
                activate(ba, a);
                break;
            case 4:
                writing = column(ba, a);
                reading.left = 0;
                want("contention", out.empty() || out.back().edge < now);
                break;
            case 5:
                reading = column(ba, a);
                writing.left = 0;
                while (!out.empty() && out.back().edge >= now + int64_t(latency)) out.pop_back();
                break;
            default:
                want("command", false);
        }
    }

    void want_idle() const {
        for (const Bank& bank : banks) {
            want("bank state", !bank.open);
            want("startup", bank.ready);
            want_time("tRP", bank.precharged, rp);
            want_time("tRC", bank.activated, rc);
        }
    }

    void set_mode(uint32_t a, uint32_t ba) {
        want_idle();
        want("mode", a >> 7 == 0 && ba == 0 && (a & 8) == 0 && (a & 7) <= 3);
        latency = a >> 4 & 7;
        want("mode", latency == 2 || latency == 3);
        want("startup", refreshes >= 8);
        burst_words = 1 << (a & 7);
        mode_set = now;
        in_use = true;
        used_since = now;
        refreshes = 0;
    }

    void do_refresh() {
        want_idle();
        refreshed = now;
        refreshes++;
    }

    void precharge(uint32_t n) {
        Bank& bank = banks[n];
        if (bank.open) {
            want_time("tRAS", bank.activated, ras);
            want_time("tWR", bank.written, wr);
            want("tWR", !(writing.left && writing.bank == n));
            want("read cut", !(reading.left && reading.bank == n));
            for (const Word& word : out) want("read cut", word.edge <= now + 1 || word.bank != n);
        }
        if (bank.open || !bank.ready) bank.precharged = now;
        bank.open = false;
        bank.ready = true;
    }

    void activate(uint32_t n, uint32_t row) {
        Bank& bank = banks[n];
        want("startup", in_use);
        want("bank state", !bank.open);
        want("address", row >> row_bits == 0);
        want_time("tRP", bank.precharged, rp);
        want_time("tRC", bank.activated, rc);
        want_time("tRRD", activated, rrd);
        bank.open = true;
        bank.row = row;
        bank.activated = activated = now;
    }

    Burst column(uint32_t n, uint32_t a) {
        const Bank& bank = banks[n];
        want("bank state", bank.open);
        want_time("tRCD", bank.activated, rcd);
        want("address", a >> column_bits == 0);
        return {n, bank.row, a, 0, burst_words};
    }

    uint16_t& next_word(Burst& burst) {
        uint32_t inside = burst_words - 1;
        uint32_t column = (burst.column & ~inside) | ((burst.column + burst.done) & inside);
        burst.done++;
        burst.left--;
        return content[((size_t(burst.row) * 4 + burst.bank) << column_bits) + column];
    }

    void write_word(Vcelosia& c) {
        want("write data", c.pins___05Fdq_oe);
        banks[writing.bank].written = now;
        uint16_t& word = next_word(writing);
        for (int lane = 0; lane < 2; lane++) {
            uint16_t byte = uint16_t(0xFF << 8 * lane);
            if (!(c.pins___05Fdqm >> lane & 1)) word = uint16_t((word & ~byte) | (c.pins___05Fdq_o & byte));
        }
    }

    void read_word() {
        uint32_t bank = reading.bank;
        out.push_back({now + int64_t(latency), next_word(reading), bank});
    }

    // The word at the next edge, which the mask of the edge before this one may hide.
    int32_t word_at_next_edge() {
        if (out.empty() || out.front().edge != now + 1) return kNoWord;
        if (masks[(now + 3) % 4]) {
            out.pop_front();
            return kNoWord;
        }
        return out.front().value;
    }
};
