"""The table of codes is whole: every code that the sources give, and no other."""

import ast
import re
from pathlib import Path

from components.common.reject_codes import REJECT_CODES

SOURCES = Path(__file__).parents[3] / "components"
GIVE_CODES = {
    "BadRow",
    "ExcludedInput",
    "FileRefusedError",
    "Reject",
    "RejectedInputError",
    "_leave_out",
    "bad.append",
}
CODE = re.compile(r"[A-Z]+\d*(_[A-Z]+\d*)*")


def codes_of(node):
    """Codes among the arguments of what makes rejects, and those that come before a sentence."""
    given = []
    if isinstance(node, ast.Call) and ast.unparse(node.func) in GIVE_CODES:
        given = [part for argument in node.args for part in ast.walk(argument)]
    elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
        sentence = node.elts[1]
        if isinstance(sentence, ast.JoinedStr | ast.Call | ast.Name) or (
            isinstance(sentence, ast.Constant) and " " in str(sentence.value)
        ):
            given = node.elts[:1]
    for part in given:
        value = part.value if isinstance(part, ast.Constant) else None
        if isinstance(value, str) and CODE.fullmatch(value) and len(value) > 3:
            yield value


def test_each_code_has_a_cause_and_a_cure():
    found = {
        code
        for path in SOURCES.rglob("*.py")
        if path.name != "reject_codes.py"
        for node in ast.walk(ast.parse(path.read_text()))
        for code in codes_of(node)
    }
    assert found - {"CMYK"} <= REJECT_CODES.keys(), sorted(found - REJECT_CODES.keys())
    everything = "".join(
        path.read_text() for path in SOURCES.rglob("*.py") if path.name != "reject_codes.py"
    )
    assert [code for code in REJECT_CODES if f'"{code}"' not in everything] == []
    assert all(cause and cure for cause, cure in REJECT_CODES.values())
