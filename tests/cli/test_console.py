"""Tables that fit the terminal, and what the verbs show in them."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuq import format as fmt
from gpuq.cli import console, job_labels, messages
from gpuq.cli.verbs import gpus, queue
from gpuq.messages.environment import in_environment
from tests.cli import samples


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=60)), max_size=5), st.integers(40, 200))
def test_a_table_fits_its_width(cells: list[tuple[str, str]], width: int) -> None:
    columns = [console.Column("NAME", least=8), console.Column("REASON", least=10)]
    lines = console.table(columns, cells, width)
    assert len(lines) == len(cells) + 1
    assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_queue_fits_and_keeps_ids_states_and_reasons(width: int) -> None:
    lines = queue.screen(samples.queue(), width, colour=False, now=samples.NOW)
    assert all(len(line) <= width for line in lines)
    assert lines[0].split()[:3] == lines[4].split()[:3] == ["ID", "NAME", "ST"]
    assert lines[5].endswith("FirstRunExclusive")
    assert lines[6].endswith("PredictedLoad")
    assert {line.index(" R") for line in lines[1:3]} == {lines[0].index(" ST")}


def test_a_pipe_to_a_pager_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 133, 0, 0))
    with os.fdopen(controller, "wb"), os.fdopen(terminal, "w") as screen, (tmp_path / "pipe").open("w") as pipe:
        for name, stream in (("stdin", None), ("stdout", pipe), ("stderr", screen)):
            monkeypatch.setattr(sys, name, stream)
        assert console.terminal_width() == 133
        monkeypatch.setattr(sys, "stderr", pipe)
        assert console.terminal_width() == 80


def test_the_queue_at_80_columns() -> None:
    jobs = [*samples.queue(), samples.ended(40, "FAILED", 1, reason="ended with exit code 1: OSError: no space")]
    jobs[2]["position"], jobs[3]["position"] = 2, 1
    jobs[3]["expected_start"] = {"p50_unix": samples.NOW + 3000, "p90_unix": samples.NOW + 4000}
    assert queue.screen(jobs, 80, colour=False, now=samples.NOW) == [
        "ID  NAME    ST  GPU   MEM/PRED     TIME  REASON",
        "40  resnet  F   cpu0  ?/9.8G    1:12:00  exit 1: OSError: no space",
        "",
        "ID  NAME     ST  GPU   SHARE  MEM/PRED  UTIL  SLOW     TIME    LEFT",
        "42  resnet   R   cpu0  +43    9.1/9.8G   61%   ~4%  1:12:00    ~48m",
        "43  bert-ft  R   cpu0  +42    9.1/9.8G   61%   ~4%    20:00  ~1h40m",
        "",
        "ID  NAME                     ST  SHARE  PRED     RUN  START  REASON",
        "45  gan                      PD  -      9.8G  ~2h00m   ~50m  PredictedLoad",
        "44  llama-70b-finetune-lora  PD  never     -       -      -  FirstRunExclusive",
        "",
        "2 running, 2 waiting, 1 failed",
    ]


def a_step(job_id: int, *arguments: str, script: str = "/home/ana/sweep/step.py", **changes: Any) -> dict[str, Any]:
    name = script.rpartition("/")[2]
    return samples.job(job_id, name=name, command=["/usr/bin/python3", script, *arguments], **changes)


def names(jobs: list[dict[str, Any]], width: int = 80) -> list[str]:
    """What stands between the id and the state."""
    lines = queue.screen(jobs, width, colour=False, now=samples.NOW)[1 : 1 + len(jobs)]
    return [line.partition(" ")[2].partition(" PD")[0].strip() for line in lines]


def test_a_command_is_its_script_module_or_program() -> None:
    assert job_labels.split_command(["/opt/python3", "-u", "train.py", "-m", "x"]) == ("train.py", ["-m", "x"])
    assert job_labels.split_command(["python", "-m", "torch.run", "a"]) == ("torch.run", ["a"])
    assert job_labels.split_command(["/bin/python3", "-m"]) == ("/bin/python3", ["-m"])
    assert job_labels.split_command(["python3", "-c", "pass"]) == ("python3 -c", ["pass"])


def test_a_script_gets_as_much_of_its_folder_as_tells_it_from_others() -> None:
    scripts = {"/w/mnist/main.py", "/w/imagenet/main.py", "/v/x/y.py", "y.py"}
    assert job_labels._script_names(scripts) == {
        "/w/mnist/main.py": "mnist/main.py",
        "/w/imagenet/main.py": "imagenet/main.py",
        "/v/x/y.py": "x/y.py",
        "y.py": "y.py",
    }
    apart = {"/a/main.py": "main.py", "/b/domain.py": "domain.py"}
    assert job_labels._script_names(set(apart)) == apart, "of a name only a whole one counts"


def test_labels_of_one_script_show_the_differing_arguments() -> None:
    common = ("--data", "/srv/datasets/imagenet-2012", "--epochs=90", "--amp")
    jobs = [a_step(n, *common, "--lr", f"0.{n}", f"--seed={n}") for n in range(1, 9)]
    assert names(jobs) == [f"step.py --lr 0.{n} --seed={n}" for n in range(1, 9)]


def test_190_jobs_of_one_script_have_190_names_at_80_columns() -> None:
    jobs = [
        a_step(
            n,
            str(3000 + n),
            "--lr",
            f"{n / 1000}",
            "--out",
            f"/srv/results/of/the/whole/group/run-{n}",
            reason="Resources",
        )
        for n in range(1, 191)
    ]
    assert len(set(names(jobs))) == 190


def test_scripts_of_one_name_show_their_folder() -> None:
    jobs = [a_step(1, script="/src/examples/mnist/main.py"), a_step(2, script="/src/examples/imagenet/main.py")]
    assert names(jobs) == ["mnist/main.py", "imagenet/main.py"]


def test_what_gpuq_puts_around_a_command_is_not_in_its_label() -> None:
    keys = ["3f2a91c07b64d8e5", "544af382a9c487c8"]
    copies = [
        a_step(n, "--lr", f"0.{n}", script=f"/home/ana/snapshots/{key}/nlp/src/step.py", snapshot=key)
        for n, key in enumerate(keys, 1)
    ]
    assert names(copies) == ["step.py --lr 0.1", "step.py --lr 0.2"]
    inside = ["python3", "/home/ana/sweep/step.py", "--lr", "0.1"]
    in_image = samples.job(1, name="step.py", command=in_environment("x.org/y", ["cuda/12"], inside))
    assert names([in_image]) == ["step.py --lr 0.1"]


def test_a_single_job_shows_all_arguments_and_cuts_long_paths_first() -> None:
    job = a_step(1, "--config", "/home/ana/experiments/configs/big.yaml", "--resume", "-1", reason="FirstRunExclusive")
    assert names([job], 120) == ["step.py --config /home/ana/experiments/configs/big.yaml --resume -1"]
    assert names([job]) == ["step.py --config …/big.yaml --resume -1"]


def test_a_given_name_precedes_the_arguments() -> None:
    jobs = [{**a_step(n, "--seed", str(n)), "name": "sweep"} for n in (1, 2)]
    assert names(jobs) == ["sweep --seed 1", "sweep --seed 2"]
    assert names(jobs[:1]) == ["sweep"]
    modules = [
        samples.job(n, name="python", command=["/bin/python3.11", "-u", "-m", "train.run", f"--n={n}"]) for n in (1, 2)
    ]
    assert names(modules) == ["train.run --n=1", "train.run --n=2"]


def test_short_reasons_of_ended_jobs() -> None:
    oom = "out of memory: RuntimeError: [enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: "
    oom += "you tried to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory); own growth"
    jobs = [
        samples.ended(1, "COMPLETED", 0, reason="ended with exit code 0"),
        samples.ended(2, "FAILED", 1, reason="ended with exit code 1: ConnectionError: no route to host"),
        samples.ended(3, "FAILED", 139, reason="ended by signal 11 (SIGSEGV)"),
        samples.ended(4, "OUT_OF_MEMORY", 1, reason=oom),
    ]
    lines = queue.screen(jobs, 80, colour=False, now=samples.NOW)
    assert lines[1].endswith("1:12:00")
    assert [line.partition("1:12:00")[2].strip() for line in lines[2:5]] == [
        "exit 1: ConnectionError: no route to host",
        "signal 11 (SIGSEGV)",
        "tried to allocate 8589934592 bytes",
    ]
    assert "ended with" not in "".join(lines)


def test_a_measured_slowdown_takes_the_place_of_the_predicted_one() -> None:
    live = {**samples.running(42)["live"], "slowdown": 1.36}
    lines = queue.screen([samples.running(42, live=live)], 120, colour=False, now=samples.NOW)
    assert " 36% " in lines[1]
    assert "~4%" not in lines[1]
    ended = samples.ended(42, "COMPLETED", 0, actual={**samples.NO_ACTUAL, "slowdown": 1.07})
    assert " 7% " in queue.screen([ended], 120, colour=False, now=samples.NOW)[1]


def test_an_unreported_device_shows_question_marks() -> None:
    assert gpus.screen(samples.DEVICES, 80, colour=False) == [
        "cpu-2, 80.0 GiB",
        "DEVICE  UTIL      MEMORY  PROMISED  JOBS",
        "cpu0     94%  15.0/80.0G     16.0G  42 resnet 9.1G, 43 bert-ft 5.2G",
        "",
        "NVIDIA H200, 141 GiB",
        "DEVICE  UTIL      MEMORY  PROMISED  JOBS",
        "gpu0       -      ?/141G         ?  not reported",
    ]


def test_foreign_memory_that_is_not_known_is_not_none() -> None:
    devices = [{**an_h100(number), "foreign_memory_bytes": foreign} for number, foreign in enumerate((2**33, 0, None))]
    assert [line.split()[4] for line in gpus.screen(devices, 100, colour=False)[1:]] == ["FOREIGN", "8.0G", "-", "?"]


def test_a_device_that_is_kept_free_says_for_which_job() -> None:
    devices = [an_h100(0), {**an_h100(1), "reserved_for": 8}]
    assert gpus.screen(devices, 80, colour=False)[-1] == "gpu1 is kept free for job 8"


def an_h100(index: int, *residents: tuple[int, str, float], host: str = "node1") -> dict[str, Any]:
    there = [{"job": job, "name": name, "memory_bytes": gib * samples.GIB} for job, name, gib in residents]
    return {
        **samples.DEVICES[0],
        "id": f"GPU-01000100-0000-0000-0000-00000000000{index}",
        "name": f"gpu{index}",
        "index": str(index),
        "host": host,
        "backend": "nvml",
        "kind": "NVIDIA H100 80GB HBM3",
        "power_watts": 412.0,
        "residents": there,
    }


def test_eight_equal_gpus_have_one_heading_and_a_line_each() -> None:
    devices = [an_h100(n, (100 + n, "train.py", 40), (200 + n, "finetune.py", 20.5)) for n in range(8)]
    lines = gpus.screen(devices, 80, colour=False)
    assert lines[0] == "8 x NVIDIA H100 80GB HBM3, 80.0 GiB each"
    assert [line.split()[0] for line in lines[1:]] == ["DEVICE", *(f"gpu{n}" for n in range(8))]
    assert lines[4].endswith("102 train.py 40.0G, 202 finetune.py 20.5G"), "the second resident is whole"
    assert max(map(len, lines)) <= 80


def test_narrow_terminals_cut_names_before_residents() -> None:
    name = "a-very-long-experiment-name-of-another.py"
    devices = [an_h100(0, (1001, name, 40), (1002, name, 20.5), (1003, name, 3))]
    for width in (80, 100):
        line = gpus.screen(devices, width, colour=False)[-1]
        assert len(line) <= width
        for part in ("1001 a-v", "40.0G", "1002 a-v", "20.5G", "1003 a-v", "3.0G"):
            assert part in line, (width, part, line)
    assert gpus.screen(devices, 62, colour=False)[-1].endswith("1001 40.0G, 1002 20.5G, 1003 3.0G")
    assert gpus.screen(devices, 45, colour=False)[-1].endswith("1001, 1002, 1003")


def test_several_hosts_are_in_the_headings() -> None:
    devices = [{**an_h100(n, host=host), "name": f"{host}:gpu{n}"} for host in ("node1", "node2") for n in range(2)]
    lines = gpus.screen(devices, 80, colour=False)
    assert lines[0] == "node1: 2 x NVIDIA H100 80GB HBM3, 80.0 GiB each"
    assert [line.split()[0] for line in lines if "gpu" in line] == [device["name"] for device in devices]


def test_a_bar_has_the_length_of_its_share() -> None:
    assert console.bar(0.5, 8) == "████    "
    assert console.bar(7.0, 4) == "████"
    assert console.bar(None, 4) == "····"


def test_wrapping_keeps_a_number_with_its_unit() -> None:
    assert console.wrapped("aaaaaaaaaaaaaaaaa 80.0 GiB", 22) == ["aaaaaaaaaaaaaaaaa", "80.0 GiB"]


def test_an_expected_start_is_relative_to_now() -> None:
    assert (
        fmt.expected_start({"p50_unix": 3100.0, "p90_unix": 8000.0}, 100.0)
        == "in about 50m, nine times in ten within 2h12m"
    )
    assert fmt.expected_start({"p50_unix": 90.0, "p90_unix": 99.0}, 100.0) == "soon"
    assert fmt.expected_start({"p50_unix": 100.0, "p90_unix": 160.0}, 100.0) == "soon, nine times in ten within 1m"
    assert fmt.expected_start(None, 100.0) is None
    assert fmt.expected_start(None, 100.0) is None


def test_a_job_on_several_devices_shows_the_first_and_how_many_more() -> None:
    assert queue._device({"device": "host/cpu0", "devices": ["host/cpu0", "host/cpu1", "host/cpu2"]}).endswith(
        "cpu0 +2"
    )
    assert "+" not in queue._device({"device": "host/cpu0", "devices": ["host/cpu0"]})
    assert queue._device({"device": None, "devices": []}) == "-"


def test_why_a_job_on_several_devices_waits() -> None:
    def output(rule: str, **numbers: object) -> str:
        return messages.lines({"rule": rule, "admitted": False, "numbers": numbers, "device": None})[0]

    waits = output("Resources", wanted_devices=2, devices=4, busy_devices=3)
    assert waits == "Resources: 2 devices of one host wanted; 3 of 4 are busy."
    waits = output("Resources", wanted_devices=4, devices=4, busy_devices=0, unusable_devices=1)
    assert waits == "Resources: 4 devices of one host wanted; 0 of 4 are busy, 1 unusable: `gpuq doctor` says why."
    never = output("NeverFits", wanted_devices=8, devices_per_host=4)
    assert never == "NeverFits: 8 devices of one host wanted; the most that there are is 4."
