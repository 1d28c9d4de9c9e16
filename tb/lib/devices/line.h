// The host's end of a serial line, 8N1: levels on a wire at one side, a pseudo-terminal at the other.

#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <random>

// One byte wide side of a line: 8N1 on a wire.
struct Sender {
    std::deque<uint8_t> bytes;
    uint32_t shift = 1;
    int bits = 0;
    uint64_t timer = 0;

    bool step(uint64_t divisor) {
        if (timer == 0) {
            if (bits == 0 && !bytes.empty()) {
                shift = bytes.front() << 1 | 0x200;
                bytes.pop_front();
                bits = 10;
            } else if (bits > 0) {
                shift = shift >> 1 | 0x200;
                bits--;
                if (bits == 0) return step(divisor);
            }
            timer = bits > 0 ? divisor : 0;
        }
        if (timer > 0) timer--;
        return bits > 0 ? shift & 1 : true;
    }
};

struct Receiver {
    int bits = -1;
    uint64_t timer = 0;
    uint32_t shift = 0;

    // Returns a byte, or -1.
    int step(bool level, uint64_t divisor) {
        if (bits < 0) {
            if (level) return -1;
            bits = 0;
            timer = divisor + divisor / 2;
        }
        if (--timer > 0) return -1;
        timer = divisor;
        if (bits == 8) {
            bits = -1;
            return level ? int(shift) : -1;
        }
        shift = shift >> 1 | (level ? 0x80 : 0);
        bits++;
        return -1;
    }
};

// Drops, doubles or flips bytes, one as often as another.
struct Noise {
    std::mt19937 random;
    uint32_t per_million;

    void pass(uint8_t byte, std::deque<uint8_t>& to) {
        if (random() % 1000000 >= per_million) {
            to.push_back(byte);
            return;
        }
        switch (random() % 3) {
            case 0:
                break;
            case 1:
                to.push_back(byte);
                to.push_back(byte);
                break;
            default:
                to.push_back(byte ^ 1u << random() % 8);
        }
    }
};

// Returns the near end of a new pseudo-terminal and prints the path of its far end, which stays open: a host may come and go.
inline int open_terminal() {
    int line = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (line < 0 || grantpt(line) || unlockpt(line)) return -1;
    int far = open(ptsname(line), O_RDWR | O_NOCTTY);
    termios modes;
    if (far < 0 || tcgetattr(far, &modes)) return -1;
    cfmakeraw(&modes);
    tcsetattr(far, TCSANOW, &modes);
    std::printf("%s\n", ptsname(line));
    std::fflush(stdout);
    return line;
}

// The line from pseudo-terminal to levels and back.
struct Line {
    int terminal;
    uint64_t divisor;
    Noise noise;
    Sender sender;
    Receiver receiver;
    std::deque<uint8_t> leaving;

    // Moves what waits at the terminal.
    void poll_terminal() {
        uint8_t buffer[256];
        if (sender.bytes.size() < sizeof buffer) {
            ssize_t got = read(terminal, buffer, sizeof buffer);
            for (ssize_t n = 0; n < got; n++) noise.pass(buffer[n], sender.bytes);
        }
        while (!leaving.empty()) {
            if (write(terminal, &leaving.front(), 1) != 1) break;
            leaving.pop_front();
        }
    }

    bool send() { return sender.step(divisor); }

    void receive(bool level) {
        int byte = receiver.step(level, divisor);
        if (byte >= 0) noise.pass(uint8_t(byte), leaving);
    }
};

// Whether standard input has ended.
inline bool input_ended() {
    pollfd input{0, POLLIN, 0};
    char ignored;
    return poll(&input, 1, 0) > 0 && read(0, &ignored, 1) <= 0;
}
