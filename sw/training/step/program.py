"""Program of one training step."""

from celosia.hw.arch import commands
from celosia.hw.arch.isa import Instruction, Opcode
from celosia.sw.compiler.emit.synchronise import synchronise
from celosia.sw.training.step import forward, update
from celosia.sw.training.step.conv import forward as convolutions
from celosia.sw.training.step.emitter import Emitter
from celosia.sw.training.step.layout import Layout


def instructions(layout: Layout) -> list[Instruction]:
    """Return the instructions of a step: forward, backward, update; they end with HALT.

    The program does not depend on the epoch: shifts and noise are in external memory.
    """
    emit = Emitter(layout)
    forward.load(emit)
    convolutions.forward(emit)
    forward.products(emit)
    emit.copy(Opcode.STORE, layout.logits, (0, layout.batch), layout.scores, layout.classes)
    forward.softmax(emit)
    forward.error(emit)
    update.updates(emit)
    return [*synchronise(emit.steps, layout.config), Instruction(Opcode.HALT)]


def encoded(layout: Layout) -> bytes:
    """Return the words of a step."""
    return commands.encode(instructions(layout))
