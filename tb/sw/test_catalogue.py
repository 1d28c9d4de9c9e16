"""The catalogue of operators agrees with the code."""

from pathlib import Path

import pytest

from celosia.sw.cli import main
from celosia.sw.operators.page import as_markdown, where
from celosia.sw.operators.registry import OPERATORS


def test_every_operator_has_its_limits_where_it_runs() -> None:
    assert list(OPERATORS) == sorted(OPERATORS)
    for kind, record in OPERATORS.items():
        runs = record.lower is not None, record.kernel is not None
        assert (record.core is not None, record.host is not None) == runs and any(runs), kind


def test_where() -> None:
    found = {kind: where(record) for kind, record in OPERATORS.items()}
    assert found["CONV_2D"] == "core, host" and found["TANH"] == "core (table), host"
    assert found["RESHAPE"] == "view, host" and found["MUL"] == "core, host"
    assert found["LOG_SOFTMAX"] == "host" and found["SHAPE"] == "constant"


def test_page_is_up_to_date(root: Path) -> None:
    """Else: celosia report --operators > docs/reference/operators.md."""
    assert (root / "docs" / "reference" / "operators.md").read_text() == as_markdown()


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--operators"]) == 0
    assert capsys.readouterr().out == as_markdown()


@pytest.mark.parametrize("arguments", [[], ["model.tflite", "--operators"]])
def test_a_model_or_the_operators(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *arguments]) == 2
    assert capsys.readouterr().err == "celosia: report: wanted a MODEL or --operators\n"
