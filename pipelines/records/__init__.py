"""Records of any dataset, one by one: read, shown, written as files."""

from pipelines.records.display import as_text, export_examples
from pipelines.records.reader import Example, ExampleReader, read_examples
from pipelines.records.values import Value

__all__ = ["Example", "ExampleReader", "Value", "as_text", "export_examples", "read_examples"]
