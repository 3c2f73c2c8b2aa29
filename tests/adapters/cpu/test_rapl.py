"""The processors' energy from files that look as the kernel's do."""

from __future__ import annotations

from pathlib import Path

from gpuq.adapters.cpu.rapl import Rapl


def zone(root: Path, name: str, label: str, microjoules: int | None) -> Path:
    folder = root / name
    folder.mkdir(exist_ok=True)
    (folder / "name").write_text(label + "\n")
    (folder / "max_energy_range_uj").write_text("9000000\n")
    if microjoules is not None:
        (folder / "energy_uj").write_text(f"{microjoules}\n")
    return folder


def test_packages_are_summed_without_subzones(tmp_path: Path):
    zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 8_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 500_000)
    zone(tmp_path, "intel-rapl:2", "psys", 500_000)
    rapl = Rapl(tmp_path)
    assert rapl.spent() is None
    zone(tmp_path, "intel-rapl:0", "package-0", 3_000_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 500_000)  # past its end, and on from 0
    zone(tmp_path, "intel-rapl:2", "psys", 7_500_000)
    assert rapl.spent() == 2.0 + 1.5


def test_unreadable_counters_give_none(tmp_path: Path):
    zone(tmp_path, "intel-rapl:0", "package-0", 1)
    zone(tmp_path, "intel-rapl:1", "package-1", None)
    rapl = Rapl(tmp_path)
    assert rapl.spent() is None
    assert rapl.spent() is None
    assert Rapl(tmp_path / "nowhere").spent() is None
