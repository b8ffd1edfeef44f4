"""Records of any dataset, one by one: read, shown, written as files."""

from pipelines.tools.records.display import as_text, export_examples
from pipelines.tools.records.reader import (
    Example,
    ExampleReader,
    Glance,
    read_examples,
    read_named,
)
from pipelines.tools.records.values import Value

__all__ = [
    "Example",
    "ExampleReader",
    "Glance",
    "Value",
    "as_text",
    "export_examples",
    "read_examples",
    "read_named",
]
