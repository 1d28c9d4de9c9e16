"""What is said about operators is what the code does."""

from pathlib import Path

import pytest

from celosia.sw.catalogue import LIMITS, as_markdown, where
from celosia.sw.cli import main
from celosia.sw.compiler.operators import OPERATORS
from celosia.sw.compiler.operators.host import HOST
from celosia.sw.frontend.operators import READERS


def test_every_operator_has_its_limits_where_it_runs() -> None:
    assert list(LIMITS) == sorted(READERS) == sorted(OPERATORS.keys() | HOST.keys())
    for kind, (core, host) in LIMITS.items():
        assert (core is not None, host is not None) == (kind in OPERATORS, kind in HOST), kind


def test_where() -> None:
    assert where("CONV_2D") == "core" and where("TANH") == "core (table)"
    assert where("RESHAPE") == "view, host" and where("MUL") == "core, host"
    assert where("SOFTMAX") == "host"


def test_page_is_up_to_date(root: Path) -> None:
    """Else: celosia report --operators > docs/operators.md."""
    assert (root / "docs" / "operators.md").read_text() == as_markdown()


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--operators"]) == 0
    assert capsys.readouterr().out == as_markdown()


@pytest.mark.parametrize("arguments", [[], ["model.tflite", "--operators"]])
def test_a_model_or_the_operators(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *arguments]) == 2
    assert capsys.readouterr().err == "celosia: report: wanted a MODEL or --operators\n"
