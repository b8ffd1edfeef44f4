"""What ML Metadata keeps of nodes, as plain JSON values.

properties_of(execution)             # {'num_shards': 8, 'input_config': {'splits': [...]}}
time_of(1_795_269_832_357)           # '2026-11-21T14:03:52.357Z'
parsed('{"splits": []}')             # {'splits': []}
"""

import contextlib
import datetime
import json
from typing import Any

from google.protobuf import json_format

from trainer_utils.format.json_text import Json, JsonObject

__all__ = ["one_line", "parsed", "properties_of", "time_of"]


def properties_of(node: Any) -> JsonObject:
    """A node's properties, declared and custom ones, by name; those that TFX keeps for itself not.

    Texts that hold JSON objects or lists, as those of TFX's settings do, are parsed.
    """
    values = {**node.properties, **node.custom_properties}
    return {name: _value(values[name]) for name in sorted(values) if not name.startswith("__")}


def _value(value: Any) -> Json:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    content = getattr(value, kind)
    if kind == "proto_value":
        return {"type_url": content.type_url, "bytes": len(content.value)}
    if kind == "struct_value":
        return json_format.MessageToDict(content)
    return parsed(content)


def parsed(value: Json) -> Json:
    """A value; of a text that holds a JSON object or list, as TFX's settings do, that."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value


def time_of(milliseconds: int) -> str | None:
    """ISO 8601 in UTC of milliseconds since 1970; None for 0, which stands for unknown."""
    if not milliseconds:
        return None
    seconds, rest = divmod(milliseconds, 1000)
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def one_line(properties: JsonObject) -> str:
    """Properties on one line: `num_shards=8, seed=0`; long values are cut."""
    return ", ".join(f"{name}={_short(value)}" for name, value in properties.items())


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= 100 else f"{text[:97]}..."
