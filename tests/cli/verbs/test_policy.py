"""`gpuq policy`: what is there, what was chosen, what proposes."""

from __future__ import annotations

from pathlib import Path

from tests.cli import samples
from tests.cli.conftest import Command, FakeApi


def rows(text: str) -> dict[str, str]:
    """name -> its line."""
    return {line.replace("*", " ").split()[0]: line for line in text.splitlines()[1:]}


def test_the_list_says_which_is_chosen_and_what_is_missing(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/policies", samples.POLICIES)

    done = gpuq("policy", "list")

    assert done.code == 0
    found = rows(done.out)
    assert found["packed"].split()[:3] == ["*", "packed", "chosen"]
    assert "ready" in found["fair"]
    assert "needs [train]" in found["integer"]
    assert "broken" in found["torn"]
    assert gpuq("policy", "list", "--json").json == samples.POLICIES


def test_the_chosen_one_comes_first_and_no_description_is_cut(gpuq: Command, api: FakeApi) -> None:
    words = "priority, then the shortest predicted; packs by what pairs of jobs cost each other, as measured or learned"
    policies = [{**policy, "summary": words} for policy in samples.POLICIES["policies"]]
    api.on("GET", "/api/v1/policies", {**samples.POLICIES, "policies": policies})
    lines = gpuq("policy", "list").out.splitlines()
    assert lines[1].split()[:2] == ["*", "packed"]
    assert " ".join(" ".join(lines).split()).count(words) == len(policies)
    assert all(len(line) <= 80 for line in lines)


def test_a_replaced_policy_is_printed_with_its_reason(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/policies", samples.REPLACED)

    done = gpuq("policy")

    assert "replaced" in rows(done.out)["fair"]
    assert rows(done.out)["packed"].split()[:3] == ["*", "packed", "stands"]
    assert "`fair` is replaced by `packed`: it failed: KeyError: 'ada'" in done.err


def test_a_chosen_policy_that_does_not_exist_is_reported(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/policies", {**samples.POLICIES, "chosen": "absent"})
    assert "the settings name `absent`, which is none of these" in gpuq("policy").err


def test_one_policy_with_its_claims_and_settings(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/policies", samples.POLICIES)

    shown = gpuq("policy", "show", "fair").out
    assert "half_life_s = 604800.0" in shown
    assert "gpuq.policies.fair:SPEC of gpuq-daemon 0.1.0" in shown
    shown = gpuq("policy", "show", "integer").out
    assert "not claimed: every job that fits" in shown
    assert "`integer` needs scipy." in shown
    assert gpuq("policy", "show", "--json").json["name"] == "packed", "the chosen one when none is named"


def test_contradicting_arguments_are_refused(gpuq: Command, api: FakeApi) -> None:
    api.on("GET", "/api/v1/policies", samples.POLICIES)
    assert gpuq("policy", "show", "absent").code == 3
    assert gpuq("policy", "list", "fair").code == 2


def test_without_a_daemon_it_lists_what_is_installed(gpuq: Command, home: Path) -> None:
    done = gpuq("policy", "--json")

    assert done.code == 0
    assert (done.json["chosen"], done.json["serving"]) == ("packed", None)
    assert "packed" in {policy["name"] for policy in done.json["policies"]}
    assert "no daemon answers" in done.err
    assert gpuq("policy", GPUQ_SCHEDULING_POLICY_TIME_LIMIT_S="soon").code == 2
    assert gpuq("policy", "--host", f"unix://{home}/absent.sock").code == 4
