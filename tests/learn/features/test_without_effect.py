"""Which settings are learned to make no difference to memory, from runs that differ in several at once."""

from __future__ import annotations

from gpuq.learn.features.setting_effects import SettingChange
from gpuq.learn.features.without_effect import without_effect
from gpuq.learn.history.job_features import JobFeatures, Value

GIB = float(2**30)


def ran(gib: float, **values: Value) -> tuple[JobFeatures, float]:
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return JobFeatures(values=tuple(sorted(named.items())), given=frozenset(named)), gib * GIB


def share(runs: list[tuple[JobFeatures, float]], name: str, old: Value | None, new: Value | None) -> float | None:
    found = without_effect(runs).get(name)
    return None if found is None else found.share(SettingChange(name, old, new))


def test_three_differing_words_clear_every_word():
    words = [ran(10.0, kennung=word) for word in ("a1", "b2", "c3")]
    assert share(words, "kennung", "c3", "d4") == 0.05
    assert share(words[:2], "kennung", "b2", "d4") is None
    assert share(words[:2], "kennung", "a1", "b2") == 0.05, "both were seen"
    noisy = [*words[:2], ran(11.0, kennung="c3")]
    assert round(share(noisy, "kennung", "c3", "d4") or 0, 3) == 0.1, "as far as they differed"


def test_ten_differing_words_clear_a_model():
    models = [ran(10.0, model=f"net{number}") for number in range(10)]
    assert share(models[:9], "model", "net1", "netx") is None
    assert share(models, "model", "net1", "netx") == 0.05
    versions = [ran(10.0, program_code=f"file-0000000{number}") for number in range(10)]
    assert share(versions[:9], "program-code", "file-00000001", "file-0000000a") is None, "an edit may do as much"
    assert share(versions, "program-code", "file-00000001", "file-0000000a") == 0.05
    sizes = [ran(10.0, thing=size) for size in ("tiny", "small", "base")]
    assert share(sizes, "thing", "tiny", "huge") is None, "the values say that it is one"


def test_numbers_are_cleared_between_those_that_were_seen():
    numbers = [ran(10.0, reduction=number) for number in (2.0, 4.0, 8.0)]
    assert share(numbers, "reduction", 4.0, 6.0) == 0.05
    assert 0.3 < (share(numbers, "reduction", 2.0, 1.0) or 0) < 0.5, "a third power too small to see may grow"
    assert (share(numbers, "reduction", 8.0, 800.0) or 0) > 1000
    assert share(numbers, "reduction", 2.0, 0.0) is None
    assert share([ran(10.0, teil=number) for number in (0.0, 1.0, 2.0)], "teil", 0.0, 1.0) == 0.05


def test_of_settings_that_change_together_the_cause_is_found():
    runs = [
        ran(20.0, zufall=1.0, tuner="lora", attn="eager"),
        ran(10.0, zufall=2.0, tuner="lora", attn="flash"),
        ran(40.0, zufall=3.0, tuner="full", attn="flash"),
        ran(10.0, zufall=4.0, tuner="lora", attn="flash"),
        ran(10.0, zufall=5.0, tuner="lora", attn="flash"),
    ]
    assert set(without_effect(runs)) == {"zufall"}
    assert share(runs, "zufall", 4.0, 3.0) == 0.05


def test_numbers_that_may_cancel_out_clear_nothing():
    """A training of ways x shots: all of these need the same."""
    runs = [ran(10.0, ways=ways, shots=shots) for ways, shots in ((20.0, 1.0), (10.0, 2.0), (4.0, 5.0))]
    assert without_effect(runs) == {}
    together = [ran(10.0, teil=number, lauf=10 * number) for number in (1.0, 2.0, 3.0)]
    assert share(together, "teil", 1.0, 3.0) == 0.05


def test_two_values_that_never_differed_alone_are_two_values_only():
    runs = [ran(10.0, tuner="lora", kern="eager"), ran(10.0, tuner="full", kern="flash")]
    assert share(runs, "kern", "flash", "eager") is None, "the two may have cancelled out"
    assert share([*runs, ran(10.0, tuner="full", kern="eager")], "kern", "flash", "eager") == 0.05


def test_word_that_came_with_another_need_is_cleared_by_no_other_word():
    runs = [ran(20.0, tuner="full", zeit="a"), *(ran(10.0, tuner=f"lora{number}", zeit="b") for number in range(3))]
    assert share(runs, "tuner", "lora1", "full") is None, "it may be the cause"
    assert share(runs, "tuner", "lora1", "lora9") == 0.05


def test_value_that_names_a_size_or_follows_numbers_is_no_other_word():
    words = [ran(10.0, kennung=word) for word in ("a1", "b2", "c3")]
    assert share(words, "kennung", "c3", "vit-large") is None
    numbers = [ran(10.0, kennung=number) for number in (1.0, 2.0, 3.0)]
    assert share(numbers, "kennung", 3.0, "full") is None


def test_nothing_is_cleared_beside_a_setting_with_a_known_effect():
    assert without_effect([ran(10.0, kennung="a", hidden=64.0), ran(10.0, kennung="b", hidden=512.0)]) == {}
    assert set(without_effect([ran(10.0, kennung="a", epochs=4.0), ran(10.0, kennung="b", epochs=5.0)])) == {"kennung"}
