"""Render HTML from templates. All data is escaped, since it may be hostile.

page = load_template("page.html").render(name="<script>")
"""

import functools
import os

import jinja2
import numpy as np

from trainer_utils.core.printable import printable
from trainer_utils.core.text_output import human_bytes, quantity

_PLAIN_FROM = 1e-6  # smaller numbers have an exponent
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'self'"
)


def load_template(name: str) -> jinja2.Template:
    """Load a template from this folder. It escapes every value that it inserts."""
    return _environment().get_template(name)


@functools.cache
def _environment() -> jinja2.Environment:
    """Return the environment of all templates, which escapes every value."""
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
    """Return the beginning of a string of any length."""
    shown = str(text)
    return _visible(shown if len(shown) <= most else shown[: most - 1] + "…")


def _number(value: float) -> str:
    """Format a number with four digits, without an exponent unless it is extreme.

    It may be missing or not finite.
    """
    if float(value).is_integer() and abs(value) < 1e12:
        return f"{value:,.0f}"
    if _PLAIN_FROM <= abs(value) < 1:
        return np.format_float_positional(value, precision=4, fractional=False, trim="-")
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:,.4g}"
