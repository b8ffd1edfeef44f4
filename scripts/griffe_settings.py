"""An extension of griffe: for `setting(64, at_least(1), "…")` the reference shows 64."""

from typing import Any

import griffe


class SettingDefaults(griffe.Extension):
    """Gives each field that `setting` declares its default as its value."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Called for each attribute that was read; see griffe's guide to extensions."""
        value = attr.value
        if isinstance(value, griffe.ExprCall) and str(value.function) == "setting":
            attr.value = value.arguments[0]
