/* Firmware of MLPerf Tiny: responds to the benchmark's runner at the UART, infers on the core.
   MODEL is the name of the network: kws01, vww01, ic01 or ad01.
   CLOCK_HZ is the clock of the bus. */
#include "system.h"

#define ENDED "m-ready\r\n"
#define COMMAND_BYTES 80
#define INPUTS (96 * 96 * 3)
#define OUTPUTS 640

extern const celosia_program network;

static celosia core;
static celosia_result result;
/* Bytes that `db` has loaded, and how many `db load` has announced. */
static union { uint8_t bytes[INPUTS]; float reals[INPUTS / 4]; } loaded;
static uint32_t count, announced;
static int8_t input[INPUTS], output[OUTPUTS];

static void put(char c)
{
    while (UART[UART_FULL])
        continue;
    UART[UART_DATA] = (uint8_t)c;
}

static char get(void)
{
    char c;
    while (UART[UART_EMPTY])
        continue;
    c = (char)UART[UART_DATA];
    UART[UART_PENDING] = UART_RECEIVED;
    return c;
}

static void print(const char *text)
{
    while (*text)
        put(*text++);
}

static void print_number(uint32_t number)
{
    if (number >= 10)
        print_number(number / 10);
    put('0' + number % 10);
}

static void print_line(const char *before, uint32_t number, const char *after)
{
    print(before);
    print_number(number);
    print(after);
}

/* As "%.3f": a thousand floats are exact in a double, so a half is one, and becomes even. */
static void print_real(float value)
{
    double scaled = 1000.0 * (value < 0 ? -value : value), rest;
    uint32_t thousandths = (uint32_t)scaled;
    rest = scaled - thousandths;
    thousandths += rest > 0.5 || (rest == 0.5 && thousandths % 2);
    if (value < 0)
        put('-');
    print_line("", thousandths / 1000, ".");
    put('0' + thousandths / 100 % 10);
    put('0' + thousandths / 10 % 10);
    put('0' + thousandths % 10);
}

/* Return the next word of a line, "" after the last, and advance past it. */
static const char *next(char **line)
{
    char *word;
    while (**line == ' ')
        ++*line;
    for (word = *line; **line && **line != ' '; ++*line)
        continue;
    if (**line)
        *(*line)++ = 0;
    return word;
}

static int is(const char *word, const char *other)
{
    while (*word && *word == *other)
        word++, other++;
    return *word == *other;
}

static int32_t number(const char *word)
{
    int32_t value = 0, negative = *word == '-';
    for (word += negative; *word >= '0' && *word <= '9'; word++)
        value = 10 * value + (*word - '0');
    return negative ? -value : value;
}

static int digit(char c)
{
    int letter = c | 0x20;
    if (c >= '0' && c <= '9')
        return c - '0';
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* The text before has left, so that what is measured does not wait for the line. */
static void timestamp(void)
{
    uint64_t cycles;
    while (!UART[UART_SENT])
        continue;
    TIMER[TIMER_LATCH] = 1;
    cycles = (uint64_t)TIMER[TIMER_HIGH] << 32 | TIMER[TIMER_LOW];
    print_line("m-lap-us-", (uint32_t)(cycles * 1000000 / CLOCK_HZ), "\r\n");
}

static int is_spectrum(void)
{
    return MODEL[0] == 'a';
}

static int8_t saturated(int32_t value)
{
    return value < -128 ? -128 : value > 127 ? 127 : value;
}

/* Make the network's input of the loaded bytes: integers, pixels, or reals half away from zero. */
static void load_input(void)
{
    const celosia_port *port = network.inputs;
    uint32_t n;
    for (n = 0; n < port->bytes; n++)
        if (is_spectrum()) {
            float value = loaded.reals[n] / port->scale;
            value = value < -256 ? -256 : value > 256 ? 256 : value;
            input[n] = saturated((int32_t)(value + (value < 0 ? -0.5 : 0.5)) + port->zero_point);
        } else
            input[n] = MODEL[0] == 'k' ? loaded.bytes[n] : loaded.bytes[n] - 128;
}

static float real(uint32_t n)
{
    const celosia_port *port = network.outputs;
    return port->scale * (output[n] - port->zero_point);
}

/* The scores, or the mean squared error of a reconstructed spectrum. */
static void results(void)
{
    uint32_t n, outputs = network.outputs->bytes;
    float sum = 0;
    print("m-results-[");
    for (n = 0; n < outputs; n++)
        if (is_spectrum()) {
            float difference = real(n) - loaded.reals[n];
            sum += difference * difference;
        } else {
            print(n ? "," : "");
            print_real(real(n));
        }
    if (is_spectrum())
        print_real(sum / outputs);
    print("]\r\n");
}

static void run(int32_t times)
{
    const uint8_t *inputs = (const uint8_t *)input;
    uint8_t *outputs = (uint8_t *)output;
    while (times-- > 0 && result == CELOSIA_OK)
        result = celosia_run(&core, &network, &inputs, &outputs);
}

static void infer(const char *inferences, const char *warmups)
{
    int32_t n = *inferences ? number(inferences) : 1, first = *warmups ? number(warmups) : 10;
    uint32_t bytes = network.inputs->bytes * (is_spectrum() ? 4 : 1);
    if (n <= 0)
        print("e-[Inference iterations must be >0]\r\n");
    else if (first < 0)
        print("e-[Inference warmup must be >=0]\r\n");
    else if (count != bytes) {
        print_line("e-[wanted ", bytes, " bytes, ");
        print_line("got ", count, "]\r\n");
    } else {
        load_input();
        print_line("m-warmup-start-", first, "\r\n");
        run(first);
        print("m-warmup-done\r\n");
        print_line("m-infer-start-", n, "\r\n");
        timestamp();
        run(n);
        timestamp();
        print("m-infer-done\r\n");
        if (result == CELOSIA_OK)
            results();
        else
            print_line("e-[core: result ", result, "]\r\n");
    }
}

/* Announce a number of bytes of an input. */
static void announce(const char *word)
{
    int32_t bytes = number(word);
    if (!*word)
        print("e-[Command 'db load' requires the # of bytes]\r\n");
    else if (bytes <= 0)
        print("e-[Command 'db load' must be >0 bytes]\r\n");
    else if (bytes > INPUTS) {
        print_line("Supplied buffer size ", bytes, " exceeds maximum of ");
        print_line("", INPUTS, "\r\n");
    } else {
        count = 0;
        announced = bytes;
        print_line("m-[Expecting ", bytes, " bytes]\r\n");
    }
}

/* Take bytes of hexadecimal digits, up to the number announced. */
static void load(const char *digits)
{
    for (; *digits && count < announced; digits += 2) {
        int high = digit(digits[0]), low = digit(digits[1]);
        if (!digits[1]) {
            /* As the benchmark spells it. */
            print("e-[Insuf" "ficent number of hex digits]\r\n");
            return;
        }
        if (high < 0 || low < 0) {
            print("e-[Invalid hex digit '");
            put(digits[0]);
            put(digits[1]);
            print("']\r\n");
            return;
        }
        loaded.bytes[count++] = high << 4 | low;
        if (count == announced)
            print("m-load-done\r\n");
    }
}

static void respond(char *line)
{
    const char *word = next(&line), *first = next(&line), *second = next(&line);
    if (is(word, "name"))
        print("m-name-dut-[celosia]\r\n");
    else if (is(word, "profile"))
        print("m-profile-[ULPMark for tinyML Firmware V0.0.1]\r\nm-model-[" MODEL "]\r\n");
    else if (is(word, "timestamp"))
        timestamp();
    else if (is(word, "db") && is(first, "load"))
        announce(second);
    else if (is(word, "db") && *first)
        load(first);
    else if (is(word, "db"))
        print("e-[Command 'db' requires a subcommand]\r\n");
    else if (is(word, "infer"))
        infer(first, second);
    else if (is(word, "results"))
        results();
    else {
        print("e-[Unknown command: ");
        print(word);
        print("]\r\n");
    }
    print(ENDED);
}

int main(void)
{
    char command[COMMAND_BYTES + 1];
    uint32_t length = 0;
    result = celosia_init(&core, REGISTERS, (void *)MEMORY, CORE_BYTES);
    if (network.inputs->bytes > sizeof input || network.outputs->bytes > sizeof output)
        result = CELOSIA_TOO_LARGE;
    if (result == CELOSIA_OK)
        result = celosia_load(&core, &network);
    print("m-timestamp-mode-performance\r\n");
    timestamp();
    print("m-init-done\r\n" ENDED);
    for (;;) {
        char c = get();
        if (c == '%') {
            command[length] = 0;
            length = 0;
            respond(command);
        } else if (length < COMMAND_BYTES)
            command[length++] = c;
    }
}
