"""Print the settings of pip as environment variables of uv, which does not read them, for a shell.

eval "$(.venv/bin/python scripts/uv_settings.py)"

Variables of uv that are already set are not changed.
"""

import ast
import os
import shlex
import subprocess
import sys

# The name of pip, the variable of uv, and the separator of several values in uv.
_VARIABLES = (
    ("index-url", "UV_DEFAULT_INDEX", None),
    ("extra-index-url", "UV_INDEX", " "),
    ("find-links", "UV_FIND_LINKS", ","),
    ("trusted-host", "UV_INSECURE_HOST", " "),
    ("cert", "SSL_CERT_FILE", None),
    ("timeout", "UV_HTTP_TIMEOUT", None),
    ("default-timeout", "UV_HTTP_TIMEOUT", None),
)


def pip_settings() -> dict[str, str]:
    """Return the settings of pip by name; those from the environment take precedence, as in pip."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [line.partition("=") for line in listed.splitlines() if "=" in line]
    lines.sort(key=lambda parts: parts[0].startswith(":env:"))
    return {name.rpartition(".")[2]: ast.literal_eval(value) for name, _, value in lines}


def main() -> None:
    """Print one `export` statement per line."""
    settings = pip_settings()
    for name, variable, separator in _VARIABLES:
        text = settings.get(name, "")
        values = text.split() if separator else [text] if text else []
        if name == "find-links":  # uv fails where pip warns
            values = [value for value in values if "://" in value or os.path.exists(value)]
        if values and variable not in os.environ:
            print(f"export {variable}={shlex.quote((separator or '').join(values))}")
    if "extra-index-url" in settings:  # pip searches all indexes; the hashes restrict the result
        print("export UV_INDEX_STRATEGY=unsafe-best-match")


if __name__ == "__main__":
    main()
