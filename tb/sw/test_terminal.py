"""The command line on terminals of few characters, interrupted early, and without a command."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from celosia.sw.cli import MODULES, main
from celosia.sw.files import write_atomically

COMMANDS = (
    "report --operators",
    "report mnist_mlp --preset nano",
    "models",
    "doctor",
    "boards --help",
    "profile mnist_mlp --preset nano -o p.html",
    "paper MLP0",
    "compile mnist_mlp --preset nano -o p",
    "disassemble p",
    "quantize café.keras --calibration x.npy -o y.tflite",
)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_terminals_of_few_characters(encoding: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        streams = [io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2)]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        try:
            code = main(command.split())
        except SystemExit as stop:
            code = stop.code
        for stream in streams:
            stream.flush()
        out, err = (stream.buffer.getvalue().decode(encoding) for stream in streams)
        assert code in (0, 1, 2) and (code == 2) == command.startswith("quantize"), err
        assert "Traceback" not in err and (out or err.count("\n") == 1), command


def test_without_a_command_the_help_is_printed(capsys) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: celosia") and "quantize" in printed


EARLY = """
import sys
class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == "celosia.sw.cli.arguments":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from celosia.sw.cli import main
sys.exit(main(["models"]))
"""


def test_an_interrupt_while_modules_are_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (130, "celosia: interrupted\n", "")


def test_the_module_of_the_command_line_loads_nothing_else() -> None:
    text = "import sys, celosia.sw.cli; "
    text += "print([n for n in sys.modules if n in ('numpy', 'amaranth')])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout == "[]\n" and len(MODULES) > 10


def test_a_full_disk_is_named() -> None:
    with pytest.raises(OSError, match=r"^/dev/full: cannot be written \(No space left on device\)"):
        write_atomically({"/dev/full": b"x"})
