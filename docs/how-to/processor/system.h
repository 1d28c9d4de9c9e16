/* Addresses in a LiteX system with a core and this processor, see hw/litex/processor.py. */
#ifndef SYSTEM_H
#define SYSTEM_H

#include "celosia.h"

#define REGISTERS 0xE0000000
#define MEMORY 0x40000000
#define CORE_BYTES 0x300000

/* Registers of LiteX's UART and timer by word. */
#define UART ((volatile uint32_t *)0xF0008000)
#define TIMER ((volatile uint32_t *)0xF0008800)
enum { UART_DATA = 0, UART_FULL = 1, UART_EMPTY = 2, UART_PENDING = 4, UART_SENT = 6 };
enum { UART_RECEIVED = 2 }; /* a bit of UART_PENDING */
enum { TIMER_LATCH = 8, TIMER_HIGH = 9, TIMER_LOW = 10 };

#endif
