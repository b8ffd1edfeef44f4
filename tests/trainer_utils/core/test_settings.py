"""Test declarations of settings, and the rejection of invalid values."""

import dataclasses
from collections.abc import Mapping, Sequence

import pytest

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import (
    NumberRule,
    Settings,
    group,
    groups_of,
    one_of,
    setting,
    settings_of,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner(Settings):
    rate: float = setting(0.5, NumberRule(0, 1, kind=float), "a share. Default: half of it.")
    mode: str | None = setting(None, one_of(None, "a", "b"), "`a` or `b`.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer(Settings):
    size: int | Mapping[str, int] | None = setting(None, NumberRule(1), "in bytes.")
    names: Sequence[str] = setting((), lambda _, value: tuple(value), "several.")
    kinds: Mapping[str, str] = setting({}, lambda _, value: value, "by name.")
    seed: int = setting(128 << 20, NumberRule(-(2**63), 2**63 - 1), "of it.")
    all_of_it: Inner = group(Inner)
    some_of_it: Inner = group(Inner, only=("mode",))


def test_declaration_contains_all_properties():
    declared = settings_of(Outer)
    assert [*declared] == ["size", "names", "kinds", "seed", "rate", "mode"]
    size, names, mode = declared["size"], declared["names"], declared["mode"]
    assert (size.is_optional, size.is_collection, size.kinds) == (True, True, (int, Mapping))
    assert (names.is_optional, names.is_collection, names.default) == (False, True, ())
    assert (mode.is_optional, mode.is_collection, mode.choices) == (True, False, (None, "a", "b"))
    assert {name: [*names] for name, (_, names) in groups_of(Outer).items()} == {
        "all_of_it": ["rate", "mode"],
        "some_of_it": ["mode"],
    }


def test_value_is_replaced_by_the_result_of_its_rule():
    made = Outer(names=["x", "y"], all_of_it=Inner(rate=1))
    assert (made.names, made.all_of_it.rate, made.size) == (("x", "y"), 1, None)
    assert Outer().kinds is not Outer().kinds
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.seed = 1


@pytest.mark.parametrize(
    ("rule", "value", "allowed"),
    [
        (NumberRule(0), 0, None),
        (NumberRule(0), 10**9, None),
        (NumberRule(-5, 5), -5, None),
        (NumberRule(0, 1, kind=float), 1, None),
        (NumberRule(0, 1, kind=float), 0.5, None),
        (one_of("keep", 1, None), "keep", None),
        (one_of("keep", 1, None), None, None),
        (NumberRule(0), -1, "int at least 0"),
        (NumberRule(-5, 5), 6, "int from -5 to 5"),
        (NumberRule(0, 1), 0.5, "int from 0 to 1"),
        (NumberRule(0, 1), True, "int from 0 to 1"),
        (NumberRule(0, 1, kind=float), float("nan"), "float from 0 to 1"),
        (NumberRule(0, 1, kind=float), "1", "float from 0 to 1"),
        (NumberRule(0), 2**63, "int at least 0"),
        (one_of("keep", 1, None), "skip", "one of keep, 1, None"),
        (one_of("keep", 1, None), ["keep"], "one of keep, 1, None"),
    ],
)
def test_rules_check_type_range_and_choices(rule, value, allowed):
    if allowed is None:
        assert rule("it", value) is value
        return
    with pytest.raises(ConfigError, match=f"^it: expected {allowed}, got ") as raised:
        rule("it", value)
    assert repr(value) in str(raised.value)


def test_string_with_a_nul_raises(subtests):
    for text in ("a\0", "\0"):
        with subtests.test(text=text):
            with pytest.raises(ConfigError, match="mode: expected a string without NUL characters"):
                Inner(mode=text)
