"""Records of any dataset, one by one: found by name, read, shown, written as files."""

from pipelines.tools.records.display import as_text, export_examples
from pipelines.tools.records.reader import Example, ExampleReader, read_examples
from pipelines.tools.records.values import Value

__all__ = ["Example", "ExampleReader", "Value", "as_text", "export_examples", "read_examples"]
