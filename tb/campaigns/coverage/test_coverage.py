"""Results of coverage: the table of reasons, the overview, the page, the command."""

from pathlib import Path

import pytest
from command_line import main

from celosia.sim.rtl.counting import Tally, Toggles
from coverage import command, runs
from coverage.explained import TABLE, TableError, explanations
from coverage.page import page, ranges, table
from coverage.summary import Met, Summary, summary

TEXTS = {
    "hw/a/one.py": "class One:\n    with m.If(x):\n        y.eq(1)\n    with m.If(z):\n",
    "hw/b/two.py": "count = Signal(4)\n",
}
LINES = {"hw/a/one.py:2": True, "hw/a/one.py:3": True, "hw/a/one.py:4": False}
SIGNALS = {
    ("hw/a/one.py:1", "i.code"): (0b111, 0b001, 0b1000),
    ("hw/b/two.py:1", "count"): (0b1111, 0b1111, 0),
}
REASONS = """
[[reason]]
why = "no core has a z"
lines = ["hw/a/one.py: with m.If(z):"]

[[reason]]
why = "there are two codes"
signals = ["hw/a/*.py: i.code[1:3]"]
"""
STALE = """
[[reason]]
why = "long gone"
lines = ["hw/a/one.py: with m.If(x):", "hw/a/one.py: with m.If(w):"]
signals = ["hw/b/two.py: count", "hw/a/one.py: j"]
"""


def summarised(reasons: str = "") -> Summary:
    return summary(LINES, SIGNALS, TEXTS, explanations(reasons))


def test_what_was_not_met_is_missing() -> None:
    found = summarised()
    assert found.counts.lines == Met(2, 3, 0) and found.counts.bits == Met(5, 7, 0)
    assert [file.path for file in found.files] == ["hw/a/one.py", "hw/b/two.py"]
    assert command.shortfall(found) == (
        "66.7 % of lines, wanted 98 %; 1 lines neither met nor explained; "
        "71.4 % of bits, wanted 90 %; 2 bits neither met nor explained"
    )
    (signal,) = found.files[0].signals
    assert signal.missing == 0b110 and signal.constant == 0b1000


def test_reasons_explain_lines_by_text_and_bits_by_name() -> None:
    found = summarised(REASONS)
    assert found.counts.lines == Met(2, 3, 1) and found.counts.bits == Met(5, 7, 2)
    assert not found.stale
    assert found.files[0].lines[4].why == "no core has a z"
    assert command.shortfall(found, lines=60, toggles=70) is None
    assert command.shortfall(found) == "66.7 % of lines, wanted 98 %; 71.4 % of bits, wanted 90 %"


def test_a_moved_line_keeps_its_reason() -> None:
    texts = TEXTS | {"hw/a/one.py": "\n\n" + TEXTS["hw/a/one.py"]}
    lines = {"hw/a/one.py:6": False}
    found = summary(lines, {}, texts, explanations(REASONS))
    assert found.files[0].lines[6].why == "no core has a z"


def test_reasons_of_nothing_are_reported() -> None:
    found = summarised(REASONS + STALE)
    assert [key.text for key in found.stale] == [
        "hw/a/one.py: with m.If(x):",
        "hw/a/one.py: with m.If(w):",
        "hw/b/two.py: count",
        "hw/a/one.py: j",
    ]
    assert "4 explanations of nothing" in str(command.shortfall(found))
    assert "hw/a/one.py: j" in page(found, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[reason]]\nlines = []", "wanted why, lines and signals"),
        ('[[reason]]\nwhy = "x"\nline = []', "wanted why, lines and signals"),
        ('[[reason]]\nwhy = "x"\nlines = "y"', "lines: wanted a list of texts"),
        ('[[reason]]\nwhy = "x"\nsignals = ["a.py"]', "wanted 'file: signal[low:high]'"),
        ('[[reason]]\nwhy = "x"\nsignals = ["a.py: b[4:4]"]', "wanted bits from low up"),
        ('[[reason]]\nwhy = "x"\nlines = ["a.py"]', "wanted 'file: text of the line'"),
        ("[table]\nx = 1", "wanted [[reason]] alone, got ['table']"),
        ("[[reason]", "explanations: "),
    ],
)
def test_a_wrong_table_is_refused(text: str, message: str) -> None:
    with pytest.raises(TableError) as caught:
        explanations(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_the_table_of_the_tree_names_lines_that_are_there(root: Path) -> None:
    for key in explanations(TABLE.read_text()):
        files = list(root.glob(key.file))
        assert files, key.text
        if not key.bits:
            texts = [line.strip() for file in files for line in file.read_text().splitlines()]
            assert key.name in texts, key.text


def test_bits_are_written_as_ranges() -> None:
    assert ranges(0) == "" and ranges(1) == "0" and ranges(0b1011100) == "6, 4:2"


def test_page_and_overview() -> None:
    found = summarised(REASONS.replace("no core has a z", "no core has <z>"))
    text = page(found, ["what was run"])
    assert "what was run" in text and "no core has &lt;z&gt;" in text
    assert text.count('class="line met"') == 2 and text.count('class="line explained"') == 2
    assert "never changed:" not in text and "explained: 2:1" in text and "constant: 3" in text
    assert '<div class="line missed">' in page(summarised(), [])
    rows = [line.split() for line in table(found, files=True).splitlines()]
    assert [row[0] for row in rows[1:]] == ["hw/a", "one.py", "hw/b", "two.py", "all"]
    assert rows[-1] == "all 2 3 66.7 % 1 0 5 7 71.4 % 2 0".split()


def test_jobs_of_a_core_come_after_its_model() -> None:
    plan = runs.Plan(("least", "odd"), 3, 2, 7)
    jobs = runs.jobs(plan)
    kinds = [job.kind for job in jobs]
    assert kinds[:4] == ["build"] * 4 and "build" not in kinds[4:]
    # The directed runs need more cores than the plan has.
    assert {job.core for job in jobs} == {"least", "odd", "square16", "vast"}
    assert [job.what for job in jobs if job.kind == "legal"] == ["3", "3"]
    assert not [job for job in runs.jobs(plan._replace(more=False)) if job.core == "vast"]


def results(problems: tuple[str, ...] = ()):
    """Replace the runs: each core covers the entries of ``LINES`` and ``SIGNALS``."""

    def run_all(plan, workers):
        for job in runs.jobs(plan):
            tally = Tally()
            tally.lines = {"hw/core.py:1": True, "hw/core.py:3": False}
            tally.signals = {("hw/core.py:1", "x"): Toggles(3, 3, 0)}
            yield runs.Result(job, 1.0, tally, problems)

    return run_all


def test_command(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(command, "run_all", results())
    reasons = tmp_path / "reasons.toml"
    reasons.write_text("")
    options = f"coverage --explained {reasons} -o {tmp_path}/made"
    # A run of some cores has no targets.
    assert main(f"{options} --configurations least".split()) == 0
    printed = capsys.readouterr()
    assert "hw " in printed.out and (tmp_path / "made" / "index.html").exists()
    assert main(options.split()) == 1
    assert "50.0 % of lines, wanted 98 %; 1 lines neither met" in capsys.readouterr().err
    monkeypatch.setattr(command, "run_all", results(("program 3: memory: 1 byte",)))
    assert main(f"{options} --configurations least".split()) == 1
    assert "least build: program 3: memory: 1 byte" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--configurations huge", "configurations: wanted some of least, "),
        ("--explained none.toml", "none.toml: "),
        ("--explained bad.toml", "bad.toml: explanations: wanted [[reason]] alone"),
        ("--programs 0", "--programs: wanted a whole number of at least 1"),
        ("-o bad.toml", "bad.toml: wanted a directory, got a file"),
    ],
)
def test_bad_arguments(options, message, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("[table]\n")
    try:
        code = main(["coverage", *options.split()])
    except SystemExit as stop:
        code = stop.code
    err = capsys.readouterr().err
    assert code == 2 and err.startswith("coverage: ") and message in err and err.count("\n") == 1
