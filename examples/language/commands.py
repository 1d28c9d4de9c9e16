"""``celosia generate``: text of a language model."""

import argparse
import math
import sys

from celosia import Interpreter
from celosia.sw.cli.arguments import (
    Commands,
    add_device,
    add_machine,
    device_options,
    number,
    seeds,
    whole,
)
from celosia.sw.runtime.session import Statistics
from celosia.sw.shipped import shipped
from celosia_examples.language.generate import generate

_MODEL = "kjv_text"


def add_generate(command: Commands) -> None:
    """Add ``celosia generate``."""
    parser = command("generate", "write text with the shipped language model", run)
    parser.add_argument(
        "--prompt", default="In the beginning", metavar="TEXT", help="text to go on from"
    )
    parser.add_argument("--tokens", type=whole, default=300, metavar="N", help="characters (300)")
    parser.add_argument(
        "--temperature",
        type=_temperature,
        default=0.7,
        metavar="T",
        help="divisor of the logits; 0 takes the most probable character (0.7)",
    )
    parser.add_argument("--seed", type=seeds, default=0, metavar="S", help="of the choice (0)")
    add_device(parser, "machine")
    add_machine(parser)


def _temperature(text: str) -> float:
    temperature = number(text)
    if not 0 <= temperature < math.inf:
        raise argparse.ArgumentTypeError(f"wanted a number of at least 0, got {text!r}")
    return temperature


def run(arguments: argparse.Namespace) -> None:
    """Write a text token by token; then its costs, on the standard error stream."""
    model = shipped()[_MODEL]
    options = device_options(arguments)
    interpreter = Interpreter(
        model.path, device=arguments.device, config=arguments.preset, **options
    )
    interpreter.allocate_tensors()
    text = generate(
        interpreter,
        model.record["characters"],
        arguments.prompt,
        arguments.tokens,
        temperature=arguments.temperature,
        seed=arguments.seed,
    )
    try:
        for count, character in enumerate(text):
            print(character if count else arguments.prompt + character, end="", flush=True)
        print()
        print(_summary(interpreter.statistics), file=sys.stderr)
    finally:
        interpreter.close()


def _summary(costs: Statistics) -> str:
    text = f"{costs.inputs} characters in {costs.seconds:.2f} s"
    if costs.cycles_per_input:
        text += f", {costs.cycles_per_input:,.0f} cycles per character"
    return text
