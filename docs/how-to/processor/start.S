/* First instruction after reset. */
    .section .start
    .globl _start
_start:
    la sp, stack
    call main
