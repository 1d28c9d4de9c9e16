import pytest

from celosia.hw.arch.config import Config
from celosia.hw.arch.pod import PodConfig
from celosia.hw.arch.presets import preset
from celosia.hw.verilog import build
from celosia.sim.rtl.converted import core_verilog

NANO = preset("nano")


def test_each_core_is_converted_once(tmp_path, monkeypatch) -> None:
    """Cores and options differ; names do not, nor does a twin that there is not."""
    converted: list[tuple[Config | PodConfig, tuple[bool, bool]]] = []

    def verilog(config: Config | PodConfig, *, simulated: bool, standard: bool, report) -> str:
        converted.append((config, (simulated, standard)))
        report(str(len(converted)))
        return f"module n{len(converted)}; // µ\n"

    monkeypatch.setattr(build, "verilog", verilog)
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path))
    same = preset(f"nano,lanes={NANO.lanes}")
    pod, large = PodConfig(NANO, 2), preset("tpu_32")
    reported: list[str] = []
    numbers = [
        core_verilog(config, **options, report=reported.append)
        for config, options in (
            (NANO, {}),
            (same, {}),
            (NANO, {"simulated": True}),
            (NANO, {"standard": True}),
            (pod, {}),
            (PodConfig(same, 2), {}),
            (PodConfig(NANO, 4), {}),
            (large, {}),
            (large, {"simulated": True}),
        )
    ]
    assert numbers == [f"module n{n}; // µ\n" for n in (1, 1, 1, 2, 3, 3, 4, 5, 6)]
    assert [options for _, options in converted] == [
        *((False, False), (False, True), (False, False), (False, False), (False, False)),
        (True, False),
    ]
    assert reported == list("123456")


def test_other_gateware_is_converted_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CELOSIA_CACHE", str(tmp_path))
    for digest in "ab":
        monkeypatch.setattr(build, "sources_digest", lambda digest=digest, **_: digest)
        monkeypatch.setattr(build, "verilog", lambda _, digest=digest, **options: digest)
        assert core_verilog(NANO) == digest


@pytest.mark.thorough
def test_names_of_cores_are_not_in_the_verilog() -> None:
    assert "nano" not in core_verilog(NANO)
