/* Driver of a Celosia core, see celosia.h. License: Apache-2.0. */
#include "celosia.h"

/* In these states a core ignores a start, or its bus is not idle. */
#define OCCUPIED (CELOSIA_STATUS_BUSY | CELOSIA_STATUS_ERROR | CELOSIA_STATUS_DRAINING)
#define INTERRUPTS (CELOSIA_INTERRUPT_DONE | CELOSIA_INTERRUPT_ERROR)

static uint32_t get(const celosia *core, uint32_t offset)
{
    return CELOSIA_READ(core->registers + offset);
}

static void set(celosia *core, uint32_t offset, uint32_t value)
{
    CELOSIA_WRITE(core->registers + offset, value);
}

static celosia_result reset(celosia *core)
{
    uint32_t polls = core->polls;
    set(core, CELOSIA_CONTROL_OFFSET, CELOSIA_CONTROL_RESET);
    while (get(core, CELOSIA_STATUS_OFFSET) & OCCUPIED)
        if (polls && !--polls)
            return CELOSIA_TIMEOUT;
    return CELOSIA_OK;
}

static celosia_result make_idle(celosia *core)
{
    celosia_result result = CELOSIA_OK;
    if (get(core, CELOSIA_STATUS_OFFSET) & OCCUPIED)
        result = reset(core);
    set(core, CELOSIA_INTERRUPT_OFFSET, INTERRUPTS);
    return result;
}

/* The core touches no byte outside the first `bytes` of memory: rounded up to 4 KiB. */
static void set_bounds(celosia *core, uint32_t bytes)
{
    set(core, CELOSIA_MEMORY_BASE_OFFSET, 0);
    set(core, CELOSIA_MEMORY_LIMIT_OFFSET, bytes - 1);
}

celosia_result celosia_init(celosia *core, uintptr_t registers, void *memory, uint32_t memory_bytes)
{
    uint32_t version;
    celosia_result result;
    core->registers = registers;
    core->memory = (uint8_t *)memory;
    core->memory_bytes = memory_bytes;
    core->polls = core->cycles = core->error_code = core->error_unit = core->error_index = 0;
    if (get(core, CELOSIA_MAGIC_OFFSET) != CELOSIA_MAGIC)
        return CELOSIA_NOT_FOUND;
    version = get(core, CELOSIA_VERSION_OFFSET);
    if (version >> 16 != CELOSIA_VERSION >> 16 || version < CELOSIA_VERSION)
        return CELOSIA_NOT_FOUND;
    set(core, CELOSIA_INTERRUPT_ENABLE_OFFSET, INTERRUPTS);
    result = make_idle(core);
    if (result == CELOSIA_OK)
        set_bounds(core, memory_bytes);
    return result;
}

void celosia_write(celosia *core, uint32_t address, const uint8_t *data, uint32_t bytes)
{
    uint32_t n;
    for (n = 0; n < bytes; n++)
        core->memory[address + n] = data[n];
}

void celosia_read(const celosia *core, uint32_t address, uint8_t *data, uint32_t bytes)
{
    uint32_t n;
    for (n = 0; n < bytes; n++)
        data[n] = core->memory[address + n];
}

celosia_result celosia_start(celosia *core, const celosia_section *section)
{
    uint32_t n;
    celosia_result result = make_idle(core);
    if (result != CELOSIA_OK)
        return result;
    CELOSIA_TO_CORE(core->memory, core->memory_bytes);
    set(core, CELOSIA_PROGRAM_ADDRESS_OFFSET, section->address);
    set(core, CELOSIA_PROGRAM_LENGTH_OFFSET, section->length);
    set(core, CELOSIA_CONTROL_OFFSET, CELOSIA_CONTROL_CLEAR);
    /* Clearing takes a cycle for each counter of a unit; a read takes longer than a cycle. */
    for (n = 0; n < CELOSIA_COUNTERS_PER_UNIT; n++)
        (void)get(core, CELOSIA_STATUS_OFFSET);
    set(core, CELOSIA_CONTROL_OFFSET, CELOSIA_CONTROL_START);
    return CELOSIA_OK;
}

celosia_result celosia_poll(celosia *core)
{
    celosia_result result = CELOSIA_OK;
    uint32_t status = get(core, CELOSIA_STATUS_OFFSET);
    if (!(status & (CELOSIA_STATUS_DONE | CELOSIA_STATUS_ERROR)))
        return CELOSIA_RUNNING;
    core->cycles = get(core, CELOSIA_CYCLES_OFFSET);
    core->error_code = get(core, CELOSIA_ERROR_CODE_OFFSET);
    core->error_unit = get(core, CELOSIA_ERROR_UNIT_OFFSET);
    core->error_index = get(core, CELOSIA_ERROR_INDEX_OFFSET);
    if (status & CELOSIA_STATUS_ERROR)
        result = reset(core) == CELOSIA_OK ? CELOSIA_FAILED : CELOSIA_TIMEOUT;
    set(core, CELOSIA_INTERRUPT_OFFSET, INTERRUPTS);
    CELOSIA_FROM_CORE(core->memory, core->memory_bytes);
    return result;
}

celosia_result celosia_wait(celosia *core)
{
    uint32_t polls = core->polls;
    celosia_result result;
    while ((result = celosia_poll(core)) == CELOSIA_RUNNING)
        if (polls && !--polls)
            return CELOSIA_TIMEOUT;
    return result;
}

static celosia_result run_all(celosia *core, const celosia_section *sections, uint32_t count)
{
    uint32_t n;
    celosia_result result = CELOSIA_OK;
    for (n = 0; n < count && result == CELOSIA_OK; n++) {
        result = celosia_start(core, &sections[n]);
        if (result == CELOSIA_OK)
            result = celosia_wait(core);
    }
    return result;
}

static celosia_result check(const celosia *core, const celosia_program *program)
{
    if (get(core, CELOSIA_FINGERPRINT_OFFSET) != program->fingerprint)
        return CELOSIA_MISMATCH;
    return program->memory_bytes > core->memory_bytes ? CELOSIA_TOO_LARGE : CELOSIA_OK;
}

celosia_result celosia_load(celosia *core, const celosia_program *program)
{
    uint32_t n;
    celosia_result result = check(core, program);
    if (result != CELOSIA_OK)
        return result;
    set_bounds(core, program->memory_bytes);
    for (n = 0; n < program->segment_count; n++) {
        const celosia_segment *segment = &program->segments[n];
        celosia_write(core, segment->address, segment->data, segment->bytes);
    }
    return run_all(core, program->once, program->once_count);
}

celosia_result celosia_run(celosia *core, const celosia_program *program,
                           const uint8_t *const *inputs, uint8_t *const *outputs)
{
    uint32_t n;
    celosia_result result = check(core, program);
    if (result != CELOSIA_OK)
        return result;
    for (n = 0; n < program->input_count; n++)
        celosia_write(core, program->inputs[n].address, inputs[n], program->inputs[n].bytes);
    result = run_all(core, program->each, program->each_count);
    for (n = 0; n < program->output_count && result == CELOSIA_OK; n++)
        celosia_read(core, program->outputs[n].address, outputs[n], program->outputs[n].bytes);
    return result;
}

uint32_t celosia_counter(const celosia *core, uint32_t unit, uint32_t cycles_class)
{
    uint32_t number = unit * CELOSIA_COUNTERS_PER_UNIT + cycles_class;
    return get(core, CELOSIA_COUNTERS_OFFSET + 4 * number);
}
