"""An extension of griffe, so that the reference shows 64 for `setting(64, at_least(1), "…")`."""

from typing import Any

import griffe


class SettingDefaults(griffe.Extension):
    """The extension: the value of a field declared by `setting` is the default of the setting."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Set the value of an attribute; griffe calls this for each attribute it has read."""
        value = attr.value
        if isinstance(value, griffe.ExprCall) and str(value.function) == "setting":
            attr.value = value.arguments[0]
