"""Records of any dataset, one by one: found by name, read, shown, written as files."""

from components.report.records.display import as_text, export_examples
from components.report.records.reader import Example, ExampleReader, read_examples
from components.report.records.values import Value

__all__ = ["Example", "ExampleReader", "Value", "as_text", "export_examples", "read_examples"]
