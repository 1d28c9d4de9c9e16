"""Text of the shipped language model."""

import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import prerequisites
import pytest

from celosia import Interpreter
from celosia.sw.cli import main
from celosia.sw.runtime.arrays import InputError
from celosia.sw.shipped import shipped
from celosia_examples.language.generate import drawn, generate
from celosia_examples.training import train_text
from celosia_examples.training.language import LanguageModel

PROMPT = "And God said, "


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Interpreter]:
    made = Interpreter("kjv_text")
    made.allocate_tensors()
    yield made
    made.close()


@pytest.fixture
def characters() -> str:
    return shipped()["kjv_text"].record["characters"]


def greedy(characters: str, prompt: str, count: int) -> str:
    """Return the most probable text by LiteRT's reference kernels."""
    interpreter = prerequisites.litert(shipped()["kjv_text"].path.read_bytes())
    interpreter.allocate_tensors()
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    text = prompt
    for index in range(len(prompt) + count - 1):
        ones = np.full(source["shape"], -128, np.int8)
        ones[0, 0, characters.index(text[index])] = 127
        interpreter.set_tensor(source["index"], ones)
        interpreter.invoke()
        if index >= len(prompt) - 1:
            text += characters[interpreter.get_tensor(result["index"])[0, 0].argmax()]
    return text[len(prompt) :]


@pytest.mark.thorough
def test_the_most_probable_text_is_that_of_the_reference(interpreter, characters) -> None:
    # More than the window of attention.
    found = "".join(generate(interpreter, characters, PROMPT, 60, temperature=0))
    assert len(found) == 60 and found == greedy(characters, PROMPT, 60)


@pytest.mark.thorough
def test_a_seed_gives_one_text_and_another_seed_another(interpreter, characters) -> None:
    def text(seed: int) -> str:
        return "".join(generate(interpreter, characters, PROMPT, 20, seed=seed))

    assert text(1) == text(1) != text(2)


def test_the_prompt_matters(interpreter, characters) -> None:
    first, second = (
        "".join(generate(interpreter, characters, prompt, 12, temperature=0))
        for prompt in ("the LO", "Jerusale")
    )
    assert first.startswith("RD") and second.startswith("m")


def test_characters_come_one_by_one(interpreter, characters) -> None:
    text = generate(interpreter, characters, "A", 5)
    before = interpreter.statistics.inputs
    for count in range(1, 6):
        next(text)
        assert interpreter.statistics.inputs == before + count


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("", "prompt: wanted at least one character"),
        ("a€", "prompt: wanted characters of .*, got '€'"),
    ],
)
def test_refused_prompts(interpreter, characters, prompt: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        next(generate(interpreter, characters, prompt, 1))


def test_draws_have_the_probabilities_of_the_softmax(rng: np.random.Generator) -> None:
    logits = np.log([0.1, 0.6, 0.3])
    for temperature, wanted in ((1.0, [0.1, 0.6, 0.3]), (0.5, [1 / 46, 36 / 46, 9 / 46])):
        found = np.bincount([drawn(logits, temperature, rng) for _ in range(4000)], minlength=3)
        np.testing.assert_allclose(found / 4000, wanted, atol=0.03)
    assert {drawn(logits, 0, rng) for _ in range(20)} == {1}


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--prompt", PROMPT, "--tokens", "8", "--temperature", "0"]
    assert main(["generate", *options]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(PROMPT) and len(printed.out) == len(PROMPT) + 9
    assert printed.err.startswith(f"{len(PROMPT) + 7} characters in ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--temperature -1", "argument --temperature: wanted a number of at least 0, got '-1'"),
        ("--temperature nan", "argument --temperature: wanted a number of at least 0, got 'nan'"),
        ("--tokens 0", "argument --tokens: wanted a whole number of at least 1, got '0'"),
        ("--seed x", "argument --seed: wanted a whole number of at least 0, got 'x'"),
    ],
)
def test_refused_options(refused: Callable[[str], str], options: str, says: str) -> None:
    assert says in refused(f"generate {options}")


def test_figures_belong_to_the_file(root: Path) -> None:
    path = root / "sw" / "models" / f"{train_text.NAME}.tflite"
    found = json.loads(path.with_suffix(".json").read_text())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == found["sha256"]
    assert found["settings"] == train_text.SETTINGS
    assert found["characters"] == "".join(sorted(set(found["characters"])))
    assert found["int8_accuracy"] >= 0.5
    assert found["int8_bits_per_character"] <= found["float_bits_per_character"] + 0.1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:tensorflow")  # of code that it calls itself
def test_a_text_at_once_is_its_characters_one_by_one(rng: np.random.Generator) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        prerequisites.missing("tensorflow")
    sizes = LanguageModel(characters=7, width=8, heads=2, hidden=16, blocks=2, window=5)
    whole, single = sizes.build(12)
    for weight in whole.trainable_variables:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    text = rng.integers(0, 7, (1, 12)).astype(np.int32)
    ones = np.eye(7, dtype=np.float32)[text[0]]
    steps = [np.array(single(one[None, None]))[0, 0] for one in ones]
    np.testing.assert_allclose(np.array(whole(text))[0], steps, atol=1e-4)
