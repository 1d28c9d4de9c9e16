"""The pages ``docs/how-to/from-*.md``: their script and their commands do what they promise."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import prerequisites
import pytest

from celosia.sw import data
from celosia.sw.cli import main

_IMAGES = 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "package", "model"),
    [("from-keras", "tensorflow", "digits.keras"), ("from-pytorch", "litert_torch", "digits.pt2")],
)
def test_from_a_framework_to_the_rtl(
    page: str,
    package: str,
    model: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    figure: Callable[[str], None],
    verilator: None,
) -> None:
    if importlib.util.find_spec(package) is None:
        prerequisites.missing(package)
    monkeypatch.chdir(tmp_path)
    text = (root / f"docs/how-to/{page}.md").read_text()
    script = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert script
    Path("net.py").write_text(script[1])
    subprocess.run([sys.executable, "net.py"], check=True)
    assert main(f"quantize {model} --calibration mnist -o digits.tflite".split()) == 0
    lines = capsys.readouterr().out
    floating, integers = map(float, re.findall(r"(?:float|int8) accuracy +([\d.]+) %", lines))
    assert floating > 90 and floating - integers <= 0.5
    assert main("profile digits.tflite -o digits.html".split()) == 0
    images = data.find("mnist").images[:_IMAGES, :, :, None]
    content = Path("digits.tflite").read_bytes()
    shape = prerequisites.litert(content).get_input_details()[0]["shape"]
    x = (images.reshape(-1, *shape[1:]) ^ 0x80).view(np.int8)
    np.save("x.npy", x)
    assert main("run digits.tflite --input x.npy --output y.npy --device rtl".split()) == 0
    wanted = [prerequisites.litert_outputs(content, image[None])[0][0] for image in x]
    np.testing.assert_array_equal(np.load("y.npy"), wanted)
    figure(f"{page}: {floating} % in float, {integers} % in int8; the RTL gives LiteRT's bytes")
