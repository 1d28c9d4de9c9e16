"""Text from a language model, character by character."""

from collections.abc import Iterator

import numpy as np

from celosia import InputError, Interpreter


def generate(
    interpreter: Interpreter,
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
    interpreter : Interpreter
        Of a language model, its tensors allocated: one input of int8, a one among zeros for a
        character; one output of int8, the logits of the next character. The model keeps earlier
        characters in variables, which start from their initial contents.
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
    interpreter.reset_all_variables()
    rng = np.random.default_rng(seed)
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    scale, zero_point = result["quantization"]
    ones = np.where(np.eye(len(characters), dtype=bool), np.int8(127), np.int8(-128))
    numbers = _numbers(prompt, characters)
    for _ in range(count):
        for number in numbers:
            interpreter.set_tensor(source["index"], ones[number].reshape(source["shape"]))
            interpreter.invoke()
        (scores,) = interpreter.get_tensor(result["index"]).reshape(1, -1)
        numbers = [drawn(scale * (scores.astype(np.float64) - zero_point), temperature, rng)]
        yield characters[numbers[0]]


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
    for character in prompt:
        if character not in characters:
            raise InputError(f"prompt: wanted characters of {characters!r}, got {character!r}")
    return [characters.index(character) for character in prompt]
