"""Text from a language model, character by character."""

from collections.abc import Iterator

import numpy as np

from celosia.sw.runtime.arrays import InputError
from celosia.sw.runtime.session import Session


def generate(
    session: Session,
    characters: str,
    prompt: str,
    count: int,
    *,
    temperature: float = 1.0,
    seed: int = 0,
) -> Iterator[str]:
    """Yield the characters that follow a text.

    Parameters
    ----------
    session : Session
        Opened on a language model: one input of int8, a one among zeros for a character; one
        output of int8, the logits of the next character. The model keeps earlier characters in
        variables, which start from their initial contents.
    characters : str
        The characters in the order of the model's numbers.
    prompt : str
        Text before the first character; at least one character.
    count : int
        Number of characters.
    temperature : float
        Divisor of the logits before a character is drawn; 0 takes the most probable one.
    seed : int
        Of the random numbers.

    Yields
    ------
    str
        One character, as soon as the model has been run for it.

    Raises
    ------
    InputError
        If the prompt is empty or has a character that the model does not know.
    """
    session.reset()
    rng = np.random.default_rng(seed)
    text = _numbers(prompt, characters)
    (port,) = session.program.outputs
    for _ in range(count):
        ones = np.where(np.eye(len(characters), dtype=bool)[text], np.int8(127), np.int8(-128))
        (found,) = session.run([ones[:, None]])
        logits = port.scale * (found[-1, 0].astype(np.float64) - port.zero_point)
        text = [drawn(logits, temperature, rng)]
        yield characters[text[0]]


def drawn(logits: np.ndarray, temperature: float, rng: np.random.Generator) -> int:
    """Return the index of a logit, drawn with the probabilities of a softmax.

    ``temperature``: divisor of the logits; at 0 the greatest is taken.
    """
    if not temperature:
        return int(logits.argmax())
    weights = np.exp((logits - logits.max()) / temperature)
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def _numbers(prompt: str, characters: str) -> list[int]:
    """Return the numbers of the characters of a prompt."""
    if not prompt:
        raise InputError("prompt: wanted at least one character")
    for one in prompt:
        if one not in characters:
            raise InputError(f"prompt: wanted characters of {characters!r}, got {one!r}")
    return [characters.index(one) for one in prompt]
