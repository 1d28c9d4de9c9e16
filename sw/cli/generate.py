"""``celosia generate``: text of a language model."""

import argparse
import math
import sys

from celosia.sw.cli.arguments import (
    Commands,
    add_device,
    add_machine,
    device_options,
    number,
    seeds,
    whole,
)
from celosia.sw.compiler.compile import compile_graph
from celosia.sw.frontend.tflite import load
from celosia.sw.generate import generate
from celosia.sw.runtime import backends
from celosia.sw.runtime.session import Session, Statistics
from celosia.sw.shipped import shipped

_MODEL = "kjv_text"


def add_parsers(command: Commands) -> None:
    """Add the command."""
    made = command("generate", "write text with the shipped language model", run)
    made.add_argument(
        "--prompt", default="In the beginning", metavar="TEXT", help="text to go on from"
    )
    made.add_argument("--tokens", type=whole, default=300, metavar="N", help="characters (300)")
    made.add_argument(
        "--temperature",
        type=_temperature,
        default=0.7,
        metavar="T",
        help="divisor of the logits; 0 takes the most probable character (0.7)",
    )
    made.add_argument("--seed", type=seeds, default=0, metavar="S", help="of the choice (0)")
    add_device(made, "machine")
    add_machine(made)


def _temperature(text: str) -> float:
    found = number(text)
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"wanted a number of at least 0, got {text!r}")
    return found


def run(arguments: argparse.Namespace) -> None:
    """Write a text token by token; then its costs, on the standard error stream."""
    model = shipped()[_MODEL]
    program = compile_graph(load(model.path), arguments.preset, 1)
    options = device_options(arguments)
    opened = backends.open_device(arguments.device, program.config, program.memory_bytes, **options)
    with Session(program, opened) as session:
        text = generate(
            session,
            model.about["characters"],
            arguments.prompt,
            arguments.tokens,
            temperature=arguments.temperature,
            seed=arguments.seed,
        )
        for count, one in enumerate(text):
            print(one if count else arguments.prompt + one, end="", flush=True)
        print()
        print(_summary(session.statistics), file=sys.stderr)


def _summary(costs: Statistics) -> str:
    text = f"{costs.inputs} characters in {costs.seconds:.2f} s"
    if costs.cycles_per_input:
        text += f", {costs.cycles_per_input:,.0f} cycles per character"
    return text
