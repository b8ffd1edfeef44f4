"""What ML Metadata or Kubeflow's API keeps of nodes, as plain JSON values.

properties_of(execution)             # {'num_shards': 8, 'input_config': {'splits': [...]}}
time_of(1_795_269_832_357)           # '2026-11-21T14:03:52.357Z'
parsed('{"splits": []}')             # {'splits': []}
time_of_text("2026-11-21T14:03:52Z")     # '2026-11-21T14:03:52.000Z'
"""

import contextlib
import datetime
import json
import re
from typing import Any

from google.protobuf import json_format

from trainer_utils.format.json_text import Json, JsonObject

__all__ = ["one_line", "parsed", "properties_of", "time_of", "time_of_text"]

_TIMESTAMP = re.compile(r"(?P<seconds>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.(?P<decimals>\d+))?Z")
_UNSET = "1970-01-01T00:00:00Z"  # what Kubeflow says of a time that is not known


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


def time_of_text(text: str | None) -> str | None:
    """The same of a protobuf `Timestamp` in JSON, which has any number of decimals."""
    found = _TIMESTAMP.fullmatch(text or "")
    if found is None or text == _UNSET:
        return None
    return f"{found['seconds']}.{(found['decimals'] or '')[:3]:0<3}Z"


def one_line(properties: JsonObject) -> str:
    """Properties on one line: `num_shards=8, seed=0`; long values are cut."""
    return ", ".join(f"{name}={_short(value)}" for name, value in properties.items())


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= 100 else f"{text[:97]}..."
