"""Declarations of settings, and what is refused by them."""

import dataclasses
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import ConfigError
from trainer_utils.format.settings import (
    Settings,
    group,
    groups_of,
    number,
    one_of,
    setting,
    settings_of,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner(Settings):
    rate: float = setting(0.5, number(0, 1, kind=float), "a share. Default: half of it.")
    mode: str | None = setting(None, one_of(None, "a", "b"), "`a` or `b`.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer(Settings):
    size: int | Mapping[str, int] | None = setting(None, number(1), "in bytes.")
    names: Sequence[str] = setting((), lambda _, value: tuple(value), "several.")
    kinds: Mapping[str, str] = setting({}, lambda _, value: value, "by name.")
    seed: int = setting(128 << 20, number(-(2**63), 2**63 - 1), "of it.")
    all_of_it: Inner = group(Inner)
    some_of_it: Inner = group(Inner, only=("mode",))


def test_a_declaration_says_all_of_a_setting():
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


def test_a_value_is_checked_and_kept_as_its_rule_returns_it():
    made = Outer(names=["x", "y"], all_of_it=Inner(rate=1))
    assert (made.names, made.all_of_it.rate, made.size) == (("x", "y"), 1, None)
    assert Outer().kinds is not Outer().kinds
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.seed = 1


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())
)


@given(ANYTHING, st.integers(-9, 9), st.integers(0, 9))
def test_a_number_is_one_of_its_kind_within_its_range(value, least, width):
    within = least <= value <= least + width if isinstance(value, (int, float)) else False
    for kind, allowed in ((int, int), (float, (int, float))):
        is_allowed = isinstance(value, allowed) and not isinstance(value, bool) and within
        rule = number(least, least + width, kind=kind)
        if is_allowed:
            assert rule("it", value) is value
            continue
        with pytest.raises(ConfigError, match=r"^it: expected") as raised:
            rule("it", value)
        assert repr(value) in str(raised.value)
        assert f"{kind.__name__} from {least} to {least + width}" in str(raised.value)


@given(ANYTHING)
def test_a_choice_is_one_of_those_that_there_are(value):
    if value in ("keep", 1, None):
        assert one_of("keep", 1, None)("it", value) == value
        return
    with pytest.raises(ConfigError, match=r"^it: expected one of keep, 1, None, got ") as raised:
        one_of("keep", 1, None)("it", value)
    assert repr(value) in str(raised.value)


def test_no_text_has_a_nul_which_no_path_can_have():
    for text in ("a\0", "\0"):
        with pytest.raises(ConfigError, match="mode: expected a text without NUL characters"):
            Inner(mode=text)
