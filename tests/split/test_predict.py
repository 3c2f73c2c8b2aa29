import json
from dataclasses import asdict

import numpy as np
import pytest

from gpuq.errors import Failure
from gpuq.split.history import LaunchHistory, LaunchRecord, device_names, features_of
from gpuq.split.launch import OpenClDevice
from gpuq.split.predict import (
    LEAST_SHARE,
    best_share,
    log_loss,
    model_shares,
    pooled,
    predict,
    probed_shares,
    weighted_interval,
)
from tests.split.test_launch import load, written

DEVICES = (OpenClDevice(cores=(0,)), OpenClDevice(cores=(1,)))


def test_the_loss_is_the_log_of_time_over_ideal():
    assert log_loss(0.5, np.array([0.5]))[0] == 0
    assert np.exp(log_loss(1.0, np.array([0.25]))[0]) == pytest.approx(4)
    assert np.exp(log_loss(0.0, np.array([0.25]))[0]) == pytest.approx(4 / 3)


def test_the_share_with_the_least_expected_loss_is_no_worse_than_the_mean():
    samples = np.array([0.02] * 7 + [0.9] * 3)
    chosen = best_share(samples)
    assert log_loss(chosen, samples).mean() < log_loss(samples.mean(), samples).mean()


def launches(programs=30, each=4):
    """Launches of programs whose share depends on the first feature, and on nothing else but the program's own offset."""
    random = np.random.default_rng(1)
    names = [f"program {number}" for number in range(programs) for _ in range(each)]
    features = np.repeat(random.uniform(0, 1, (programs, 3)), each, axis=0) + random.normal(
        0, 0.01, (programs * each, 3)
    )
    logits = 6 * features[:, 0] - 3 + np.repeat(random.normal(0, 1, programs), each)
    return features, 1 / (1 + np.exp(-logits)), names


def test_the_model_finds_a_share_that_depends_on_a_feature():
    low, high = model_shares(*launches(), np.array([[0.05, 0.5, 0.5], [0.95, 0.5, 0.5]]), trees=50)
    assert low.best()[0] < 0.4
    assert high.best()[0] > 0.6
    assert low.weights.sum() == pytest.approx(1)
    assert high.best()[1] >= 1


def test_the_interval_of_the_model_covers_programs_that_it_never_saw():
    features, shares, names = launches(programs=80)
    known = [number for number, name in enumerate(names) if int(name.split()[1]) < 40]
    unseen = [number for number in range(len(names)) if number not in known]
    found = model_shares(
        features[known], shares[known], [names[number] for number in known], features[unseen], trees=30
    )
    covered = [one.interval[0] <= shares[number] <= one.interval[1] for one, number in zip(found, unseen, strict=True)]
    # The offsets of 40 programs: 90% of them give or take the error of a share of 40, twice.
    assert np.mean(covered) >= 0.8


def test_one_program_with_many_launches_is_not_all_that_counts():
    features, shares, names = launches(programs=20, each=2)
    many = 400
    features = np.concatenate([features, np.full((many, 3), 0.5)])
    shares, names = np.concatenate([shares, np.full(many, 0.999)]), [*names, *["one"] * many]
    (found,) = model_shares(features, shares, names, np.array([[0.05, 0.2, 0.2]]), trees=30)
    assert found.interval[1] - found.interval[0] > 0.05


def by_name(features, shares, names, which):
    return {number: (features[number], shares[number], names[number]) for number in which}


def test_launches_that_ran_on_other_devices_as_well_show_how_far_off_those_are():
    """Of 30 programs 20 are known here, all of them on devices whose logits are lower by 2."""
    features, shares, names = launches()
    elsewhere = 1 / (1 + np.exp(2) * (1 - shares) / shares)
    here = [number for number, name in enumerate(names) if int(name.split()[1]) < 20]
    own, others = by_name(features, shares, names, here), by_name(features, elsewhere, names, range(len(names)))
    known = pooled(own, [others])
    assert known.features[:, -1].tolist() == [0] * len(here) + [1] * len(names)
    assert known.shares == pytest.approx(np.concatenate([shares[here], shares]))
    unseen = [number for number in range(len(names)) if number not in here]
    asked = np.column_stack([features[unseen], np.zeros(len(unseen))])

    def lost(training):
        found = zip(model_shares(*training, asked, trees=30), shares[unseen], strict=True)
        return np.mean([log_loss(one.best()[0], np.array([share])) for one, share in found])

    assert lost(known) < lost(pooled(own, []))


def test_a_launch_that_cannot_be_probed_is_predicted_from_all_that_ran_on_this_host(tmp_path, monkeypatch):
    """20 programs on these devices, four of them on two other sets, of which each is off by its own factor."""
    launch = load(written(tmp_path))
    sets = {DEVICES: (range(20), 1.0), DEVICES[::-1]: (range(16, 22), 4.0), (DEVICES[0],) * 2: (range(16, 24), 0.25)}
    folder = tmp_path / "split"
    folder.mkdir()
    for place, (devices, (programs, factor)) in enumerate(sets.items()):
        for number in programs:
            features = tuple(float(number + value) for value in features_of(launch))
            record = LaunchRecord(f"program {number}", device_names(devices), features, 1, (3.0 * factor, 1.0))
            (folder / f"{place} {number}.json").write_text(json.dumps(asdict(record)))

    def fails(*_, **__):
        raise Failure("The kernel never ended.")

    monkeypatch.setattr("gpuq.split.predict.run_parts", fails)
    found = predict(launch, None, DEVICES, LaunchHistory(folder), limit_s=1)
    assert found.share == pytest.approx(0.75, abs=0.02)
    assert found.evidence == "a model of 20 other launches on these devices, and 14 on others"


def test_without_a_launch_that_ran_on_both_other_devices_say_nothing():
    features, shares, names = launches(programs=4, each=1)
    known = pooled(by_name(features, shares, names, [0, 1]), [by_name(features, shares, names, [2, 3])])
    assert known.programs == ("program 0", "program 1")


def test_both_devices_get_some_of_a_launch_that_only_the_model_was_asked_about():
    features, shares, names = launches()
    (found,) = model_shares(features, np.full(len(shares), 0.9999), names, features[:1], trees=30)
    assert found.best()[0] == pytest.approx(1 - LEAST_SHARE)


def test_an_interval_holds_its_part_of_the_weight():
    samples = np.arange(101) / 100
    assert weighted_interval(samples, np.ones(101), 0.9) == pytest.approx((0.05, 0.95))
    low, high = weighted_interval(samples, np.where(samples < 0.5, 1.0, 3.0), 0.5)
    assert (low, high) == (pytest.approx(0.5, abs=0.02), pytest.approx(0.83, abs=0.02))
    with pytest.raises(ValueError, match="coverage"):
        weighted_interval(np.arange(3.0), np.ones(3), 1.0)


def test_a_probe_of_a_launch_that_becomes_dearer_gives_the_front_more_groups():
    places = (1 / 6, 1 / 2, 5 / 6)
    equal = probed_shares([(at, 1 / at) for at in places], [(at, 1 / at) for at in places])
    assert np.allclose(equal, np.sqrt(0.5), atol=0.03)
    faster = probed_shares([(at, 3.0) for at in places], [(at, 1.0) for at in places])
    assert np.allclose(faster, 0.75, atol=1e-3)
    assert len(probed_shares([], [(0.5, 1.0)])) == 0
