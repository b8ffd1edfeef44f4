"""Print the tfx-shards commands of a Markdown page, one per line, for a release to try.

    python scripts/readme_commands.py README.md

Commands are the lines of `sh` blocks, and the lines after a `$` in `console` blocks. A block after
`<!-- not run: why -->` is left out.
"""

import re
import sys
from pathlib import Path

__all__ = ["readme_commands"]

_BLOCK = re.compile(
    r"(?P<note><!-- not run: [^\n]*-->\n)?^```(?:sh|console)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


def readme_commands(page: Path) -> list[str]:
    """Return the commands of a page that start with `tfx-shards`, without their comments."""
    commands = []
    for block in _BLOCK.finditer(page.read_text()):
        lines = () if block["note"] else block["text"].replace("\\\n", " ").splitlines()
        for line in (line.removeprefix("$ ") for line in lines):
            if line.startswith("tfx-shards "):
                commands.append(" ".join(re.sub(r"\s#.*", "", line).split()))
    return commands


if __name__ == "__main__":
    print("\n".join(readme_commands(Path(sys.argv[1]))))
