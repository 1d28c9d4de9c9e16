/* Classifies the digits that the host puts into memory, on the core beside this processor. */
#include "system.h"

/* After the core's part of memory: where the host and this program meet. */
typedef struct {
    uint32_t state, result, digit, cycles;
    uint8_t image[784];
    uint8_t scores[10];
} mailbox;

enum { IDLE, REQUESTED, DONE };

extern const celosia_program digits;

int main(void)
{
    volatile mailbox *box = (volatile mailbox *)(MEMORY + CORE_BYTES);
    const uint8_t *image = (const uint8_t *)box->image;
    uint8_t *scores = (uint8_t *)box->scores;
    celosia core;
    celosia_result result = celosia_init(&core, REGISTERS, (void *)MEMORY, CORE_BYTES);
    if (result == CELOSIA_OK)
        result = celosia_load(&core, &digits);
    for (;;) {
        uint32_t n, best = 0;
        while (box->state != REQUESTED)
            continue;
        if (result == CELOSIA_OK)
            result = celosia_run(&core, &digits, &image, &scores);
        for (n = 1; n < sizeof box->scores; n++)
            if ((int8_t)scores[n] > (int8_t)scores[best])
                best = n;
        box->result = result;
        box->digit = best;
        box->cycles = core.cycles;
        box->state = DONE;
    }
}
