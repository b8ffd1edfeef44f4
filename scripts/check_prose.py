"""Report unidiomatic wording in docstrings, comments, test names and pages of Markdown.

    scripts/check_prose.py docs README.md components    # prints file:line: finding; exit status 1

CONTRIBUTING.md has the rules. Ruff's D401 checks that a function's docstring starts with a verb;
this script checks the words, and the packages for vague names of variables. Pages are checked for
words with a standard replacement only.
"""

import ast
import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterator

# A docstring that starts like this describes a thing by a clause instead of naming it.
OPENINGS = re.compile(
    r"(What|Of|Has|Whose|Who|Where|Which|Those|So (many|much)|Says|None|And|As|By|In (what|which)"
    r"|To|That|Such|It)\b"
)
# Words with a standard replacement, and clauses used in place of a noun.
WORDS = re.compile(
    r"\b(anew|mend(s|ed|ing)?|told|tells of|beside|of ours|of its own|of one's own|stands?|lies|lie"
    r"|whatever|whoever|whomever|none of|is none|are none|has none|there is none|of which|of whose"
    r"|by which|from which|in which|with which|to which|so many|so much"
    r"|what (is|are|was|were|has|have|had|it|they|he|one|some|each|a|an|the|becomes?|comes?|makes?"
    r"|goes|says?|can|may|must|would|there)"
    r"|who (is|are|has|reads|writes|asks|makes|takes)|those (that|of|which|by)"
    r"|as (it|they) (lies|lie|is|are|stands|stand)|twins?|others'|sounds?|hence|thereby"
    r"|is had|are had|be had|the like|at hand|goes on|go on|houses?|rooms?)\b",
    re.IGNORECASE,
)
# Names that say nothing about the value. Only the packages are checked.
VAGUE_NAMES = {"found", "lot", "lots", "made", "one", "own", "some", "told"}
PACKAGES = {"components", "pipelines", "trainer_utils"}
# The words of a page that have a standard replacement, in any sentence.
PAGE_WORDS = re.compile(
    r"\b(anew|mend(s|ed|ing)?|told|tells of|beside|of ours|whatever|whoever|whomever|so many"
    r"|so much|twins?|others'|sounds?|hence|thereby|is had|are had|be had|the like|at hand|goes on"
    r"|go on|houses?|one's own|as (it|they) (lies|lie|stands))\b",
    re.IGNORECASE,
)
# Parts of a page that are not prose: fenced blocks, comments, code, and targets of links.
_NOT_PROSE = re.compile(
    r"^(?P<indent> *)```.*?^(?P=indent)```|<!--.*?-->|`[^`\n]*`|\]\([^)\n]*\)",
    re.DOTALL | re.MULTILINE,
)
MAX_NAME = 60  # characters of a test's name
_DIRECTIVE = re.compile(r"#\s*(noqa|type:|fmt:|pragma|ruff:|mypy:)")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Finding = tuple[int, str]


def docstring_findings(tree: ast.Module) -> Iterator[Finding]:
    """Yield findings in docstrings, with the line of each."""
    for node in ast.walk(tree):
        if not isinstance(node, _DOCUMENTED) or (text := ast.get_docstring(node)) is None:
            continue
        line = node.body[0].lineno
        if match := OPENINGS.match(text):
            yield line, f"docstring opens with {match.group()!r}"
        for match in WORDS.finditer(text):
            yield line + text[: match.start()].count("\n"), f"{match.group()!r} in a docstring"


def name_findings(tree: ast.Module) -> Iterator[Finding]:
    """Yield findings in the names of tests."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            continue
        if len(node.name) > MAX_NAME:
            yield node.lineno, f"{node.name} has {len(node.name)} characters, at most {MAX_NAME}"
        for match in WORDS.finditer(node.name.replace("_", " ")):
            yield node.lineno, f"{match.group()!r} in the name of a test"


def variable_findings(tree: ast.Module) -> Iterator[Finding]:
    """Yield findings in the names of variables; fields of a class may have any name."""
    fields = {
        id(statement.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        is_bound = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        if is_bound and node.id in VAGUE_NAMES and id(node) not in fields:
            yield node.lineno, f"a variable is called {node.id!r}"


def comment_findings(source: str) -> Iterator[Finding]:
    """Yield findings in comments."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            for match in WORDS.finditer(token.string):
                yield token.start[0], f"{match.group()!r} in a comment"


def page_findings(text: str) -> Iterator[Finding]:
    """Yield findings in the prose of a page of Markdown."""
    prose = _NOT_PROSE.sub(lambda match: "\n" * match.group().count("\n"), text)
    for match in PAGE_WORDS.finditer(prose):
        yield prose[: match.start()].count("\n") + 1, f"{match.group()!r} in a page"


def check_file(path: pathlib.Path) -> list[Finding]:
    """Return the findings in one Python file or page of Markdown, by line."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return list(page_findings(source))
    tree = ast.parse(source)
    findings = [*docstring_findings(tree), *name_findings(tree), *comment_findings(source)]
    if path.parts and path.parts[0] in PACKAGES:
        findings += variable_findings(tree)
    return sorted(findings)


def main(arguments: list[str]) -> int:
    """Check files and folders; return the number of findings, at most 1 as an exit status."""
    count = 0
    for argument in map(pathlib.Path, arguments or ["."]):
        files = sorted([*argument.rglob("*.py"), *argument.rglob("*.md")])
        for path in files if argument.is_dir() else [argument]:
            for line, finding in check_file(path):
                print(f"{path}:{line}: {finding}")
                count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
