"""Pages of HTML from templates, for data that may be hostile: all of it is escaped.

page = load_template("page.html").render(name="<script>")
"""

import functools
import os

import jinja2

from trainer_utils.format.printable import printable
from trainer_utils.text_output import human_bytes, quantity

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'self'"
)


def load_template(name: str) -> jinja2.Template:
    """A template below this folder, which inserts whatever it is given as text."""
    return _environment().get_template(name)


@functools.cache
def _environment() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(os.path.dirname(__file__))
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "bytes": human_bytes,
        "visible": _visible,
        "brief": _brief,
        "number": _number,
        "quantity": quantity,
    }
    style, _, _ = loader.get_source(environment, "style.css")
    environment.globals |= {"style": style, "policy": CONTENT_SECURITY_POLICY}
    return environment


def _visible(text: object) -> str:
    return printable(str(text), keep="\n\t")


def _brief(text: object, most: int = 300) -> str:
    """The beginning of a text that may be of any length."""
    shown = str(text)
    return _visible(shown if len(shown) <= most else shown[: most - 1] + "…")


def _number(value: float) -> str:
    """Four digits are enough to compare; there may be no number, or no finite one."""
    is_whole = float(value).is_integer() and abs(value) < 1e12
    return f"{value:,.0f}" if is_whole else f"{value:,.4g}"
