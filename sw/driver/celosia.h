/*
 * Driver of a Celosia core in C99, without an operating system and without a C library.
 *
 * The core has two addresses in a system: that of its registers, and that of the external memory
 * where its addresses begin (address 0 of a program). Programs come from `celosia compile -o x.c`.
 *
 * License: Apache-2.0.
 */
#ifndef CELOSIA_H
#define CELOSIA_H

#include <stdint.h>

#include "celosia_registers.h"

/* How registers are read and written; define both before this header to change it. */
#ifndef CELOSIA_READ
#define CELOSIA_READ(address) (*(const volatile uint32_t *)(address))
#define CELOSIA_WRITE(address, value) (*(volatile uint32_t *)(address) = (value))
#endif

/*
 * What makes data in memory visible: to the core before a start, to the processor after an end.
 * With a data cache, write it back and invalidate it here.
 */
#ifndef CELOSIA_TO_CORE
#define CELOSIA_TO_CORE(memory, bytes) ((void)0)
#define CELOSIA_FROM_CORE(memory, bytes) ((void)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    CELOSIA_OK = 0,
    CELOSIA_RUNNING,   /* the program has not ended */
    CELOSIA_FAILED,    /* the core stopped with an error: see error_code, error_unit, error_index */
    CELOSIA_TIMEOUT,   /* no end, or no idle core, within `polls` */
    CELOSIA_NOT_FOUND, /* no core at the address of the registers, or one of an older version */
    CELOSIA_MISMATCH,  /* a program for another configuration of the core */
    CELOSIA_TOO_LARGE  /* a program for more memory than there is */
} celosia_result;

/* Instructions that run from a start to HALT; `length` is the value of program_length. */
typedef struct {
    uint32_t address, length;
} celosia_section;

/* Bytes for memory before a program runs: constants and instructions. */
typedef struct {
    uint32_t address, bytes;
    const uint8_t *data;
} celosia_segment;

/* An input or output: the samples of one batch, one after the other.
   real = scale * (integer - zero_point). */
typedef struct {
    uint32_t address, bytes;
    float scale;
    int32_t zero_point;
} celosia_port;

/* A compiled network. `once` runs before the first batch, `each` for every batch. */
typedef struct {
    uint32_t fingerprint, memory_bytes;
    uint32_t segment_count, once_count, each_count, input_count, output_count;
    const celosia_segment *segments;
    const celosia_section *once, *each;
    const celosia_port *inputs, *outputs;
} celosia_program;

/* A core. `polls` bounds each wait, 0 for no bound; the other numbers are those of the last run. */
typedef struct {
    uintptr_t registers;
    uint8_t *memory;
    uint32_t memory_bytes, polls;
    uint32_t cycles, error_code, error_unit, error_index;
} celosia;

/* Find a core, end what it does, let both ends of a program interrupt, and keep the core within its
   memory, in steps of 4 KiB. */
celosia_result celosia_init(celosia *core, uintptr_t registers, void *memory, uint32_t memory_bytes);

/* Put a program into memory, keep the core within the memory of the program, and run the part of it
   that runs once. An instruction that points elsewhere ends with CELOSIA_ERROR_CODE_BUS. */
celosia_result celosia_load(celosia *core, const celosia_program *program);

/* Run a loaded program for a batch. Inputs and outputs have the layout of the ports. A program that
   celosia_load refuses is refused here, too. */
celosia_result celosia_run(celosia *core, const celosia_program *program,
                           const uint8_t *const *inputs, uint8_t *const *outputs);

/* Start a section; then wait, or poll, or wait for the interrupt and poll once. */
celosia_result celosia_start(celosia *core, const celosia_section *section);
celosia_result celosia_poll(celosia *core);
celosia_result celosia_wait(celosia *core);

/* Cycles of a unit (CELOSIA_UNIT_...) in a class (CELOSIA_CYCLES_...) of the last run. Always 0 in
   a core without activity counters. */
uint32_t celosia_counter(const celosia *core, uint32_t unit, uint32_t cycles_class);

/* Copy to and from memory of the core. */
void celosia_write(celosia *core, uint32_t address, const uint8_t *data, uint32_t bytes);
void celosia_read(const celosia *core, uint32_t address, uint8_t *data, uint32_t bytes);

#ifdef __cplusplus
}
#endif

#endif
