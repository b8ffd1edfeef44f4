"""Render chats as text, and locate the parts that the assistant wrote.

    template = load_template("models/tokenizer.json")
    text, spans = template.render([{"role": "user", "content": "Hi"}, …])
    text[slice(*spans[0])]                # the assistant's first answer

The template is `chat_template.jinja` next to the tokenizer's file, or `chat_template` in
`tokenizer_config.json` there. Without one, the plain template applies. It renders each message as
its role, a colon, a line end, its content and two line ends. Tool calls follow the content as JSON,
one per line.

The assistant's parts are between `{% generation %}` and `{% endgeneration %}`. If the template has
no such block, a part is the text that an assistant message adds to the rendered earlier messages
and generation prompt.

Source: `transformers/utils/chat_template_utils.py`, `render_jinja_template`.
"""

import dataclasses
import datetime
import functools
import hashlib
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from trainer_utils.core.errors import ConfigError
from trainer_utils.storage import exists, read_bytes

_ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant"}
_BEGIN, _END = "\0\1", "\0\2"  # mark a generated part; unambiguous, since messages have no NUL
_MARK = re.compile(f"{_BEGIN}|{_END}")

Message = dict[str, Any]
Span = tuple[int, int]


class ChatError(ValueError):
    """A chat that cannot be rendered with the template."""


@dataclasses.dataclass(frozen=True)
class ChatTemplate:
    """A Jinja chat template, or the plain template if `source` is empty."""

    source: str = ""
    special_tokens: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The SHA-256 of the template and its special tokens; empty for the plain one."""
        if not self.source:
            return ""
        known = json.dumps([self.source, sorted(self.special_tokens.items())])
        return hashlib.sha256(known.encode()).hexdigest()

    def render(self, chat: Sequence[Any]) -> tuple[str, list[Span]]:
        """Render a chat as text, and return the character spans that the assistant wrote.

        Args:
            chat: the messages, each a dict with a role and content.

        Raises:
            ChatError: an element is not a message, or the template fails.
        """
        messages = [*map(_message, chat)]
        if not self.source:
            return _render_plainly(messages)
        try:
            return self._render_by_template(messages)
        except ChatError:
            raise
        except Exception as error:  # a template can raise anything
            raise ChatError(f"{type(error).__name__}: {error}") from error

    def _render_by_template(self, messages: Sequence[Message]) -> tuple[str, list[Span]]:
        """Render messages; return the text, and the spans of the assistant's parts."""
        template = _compiled(self.source)

        def text_of(count: int, *, with_prompt: bool = False) -> str:
            return str(
                template.render(
                    messages=messages[:count],
                    tools=None,
                    documents=None,
                    add_generation_prompt=with_prompt,
                    **self.special_tokens,
                )
            )

        if re.search(r"\{%-?\s*generation\s*-?%\}", self.source):
            return _without_marks(text_of(len(messages)))
        text, spans = text_of(len(messages)), list[Span]()
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = text_of(number, with_prompt=True) if number else ""
            after = text_of(number + 1)
            if not (text.startswith(after) and after.startswith(before)):
                raise ChatError(
                    "the template changes earlier messages, so that the assistant's part cannot "
                    "be located: put {% generation %} and {% endgeneration %} around it"
                )
            spans.append((len(before), len(after)))
        return text, spans


def load_template(tokenizer: str) -> ChatTemplate:
    """Return the chat template next to a tokenizer's file, or else the plain template.

    Args:
        tokenizer: path or uri of the tokenizer's file, or the name of a tiktoken encoding.

    Raises:
        ConfigError: Jinja cannot parse the template.
    """
    if posixpath.splitext(tokenizer)[1] not in (".json", ".model"):
        return ChatTemplate()
    folder = posixpath.dirname(tokenizer)
    config_path = posixpath.join(folder, "tokenizer_config.json")
    template_path = posixpath.join(folder, "chat_template.jinja")
    config = json.loads(read_bytes(config_path)) if exists(config_path) else {}
    source = config.get("chat_template") or ""
    if isinstance(source, list):
        by_name = {entry["name"]: entry["template"] for entry in source}
        source = by_name.get("default", "")
    if exists(template_path):
        source = read_bytes(template_path).decode()
    tokens = {
        name: value["content"] if isinstance(value, dict) else value
        for name, value in config.items()
        if name.endswith("_token") and isinstance(value, (str, dict))
    }
    if source:
        try:
            _compiled(source)
        except Exception as error:
            rule = f"one whose chat template Jinja reads ({type(error).__name__}: {error})"
            raise ConfigError.of("tokenizer", tokenizer, allowed=rule) from error
    return ChatTemplate(source, tokens)


def _message(value: Any) -> Message:
    """Return a message with its role and its content as a string; raise ChatError without these."""
    if not isinstance(value, dict):
        raise ChatError(f"expected messages, got {value!r}")
    role = value.get("role", value.get("from"))
    if not isinstance(role, str):
        raise ChatError(f"expected a message with a role, got the keys {', '.join(value)}")
    content = value.get("content", value.get("value"))
    if isinstance(content, list):  # parts of several types, such as text and images
        kinds = [part.get("type") if isinstance(part, dict) else None for part in content]
        if {*kinds} - {"text"}:
            raise ChatError(f"expected content in text parts, got {', '.join(map(str, kinds))}")
        content = "".join(part["text"] for part in content)
    if content is not None and not isinstance(content, str):
        raise ChatError(f"expected a string as content, got {type(content).__name__}")
    if "\0" in (content or ""):
        raise ChatError("expected text, got a NUL byte")
    others = {key: part for key, part in value.items() if key not in ("from", "value")}
    return {**others, "role": _ROLES.get(role, role), "content": content}


def _render_plainly(messages: Sequence[Message]) -> tuple[str, list[Span]]:
    text, spans = "", list[Span]()
    for message in messages:
        text += f"{message['role']}:\n"
        calls = [json.dumps(call, ensure_ascii=False) for call in message.get("tool_calls") or ()]
        body = "\n".join(filter(None, [message["content"], *calls])) + "\n\n"
        if message["role"] == "assistant":
            spans.append((len(text), len(text) + len(body)))
        text += body
    return text, spans


def _without_marks(marked: str) -> tuple[str, list[Span]]:
    parts, spans, length, begin = list[str](), list[Span](), 0, 0
    marks = _MARK.findall(marked)
    for part, mark in zip(_MARK.split(marked), [*marks, ""], strict=True):
        parts.append(part)
        length += len(part)
        if mark == _BEGIN:
            begin = length
        elif mark == _END:
            spans.append((begin, length))
    return "".join(parts), spans


@functools.lru_cache(maxsize=4)
def _compiled(source: str) -> Any:
    """Compile a template in a sandbox with the functions that Hugging Face's templates use."""
    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """The block `{% generation %}`, which puts marks around its text."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            call = self.call_method("_mark")
            return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _mark(self, caller: Any) -> str:
            return f"{_BEGIN}{caller()}{_END}"

    def refuse(message: str) -> NoReturn:
        raise ChatError(message)

    def to_json(value: Any, indent: int | None = None, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent, **options)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = _no_clock
    return environment.from_string(source)


def _no_clock(form: str) -> str:
    """Format a fixed date, since records must not depend on the time of the conversion."""
    return datetime.datetime(2025, 1, 1).strftime(form)
