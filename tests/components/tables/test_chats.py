"""Chats become tokens with a mask of the assistant's tokens."""

import json
from pathlib import Path

import numpy as np
import pytest

import trainer_utils
from components.tables.chats import ChatError, ChatTemplate, load_template
from tests.components.plain_runs import convert, read_records, write_files
from trainer_utils.core.errors import ConfigError

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
MARKED = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "A: {% generation %}{{ message['content'] + eos_token }}{% endgeneration %}\n"
    "{% elif message['role'] == 'user' %}Q: {{ message['content'] }}\n"
    "{% else %}{{ raise_exception('no role ' + message['role']) }}{% endif %}"
    "{% endfor %}"
)
CHAT = [
    {"role": "user", "content": "1 + 1?"},
    {"role": "assistant", "content": "2, größer."},
    {"role": "user", "content": "Sure?"},
    {"role": "assistant", "content": "Yes."},
]
CALL = {"id": "x", "function": {"name": "f", "arguments": "{}"}}


def parts(template: ChatTemplate, chat: list[dict]) -> tuple[str, list[str]]:
    text, spans = template.render(chat)
    return text, [text[slice(*span)] for span in spans]


def test_plain_template_renders_roles_and_contents():
    chat = [*CHAT[:2], {"role": "assistant", "content": None, "tool_calls": [CALL]}]
    text, own = parts(ChatTemplate(), chat)
    call = json.dumps(CALL)
    assert text == (f"user:\n1 + 1?\n\nassistant:\n2, größer.\n\nassistant:\n{call}\n\n")
    assert own == ["2, größer.\n\n", f"{call}\n\n"]


def test_sharegpt_roles_are_renamed():
    chat = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]
    assert parts(ChatTemplate(), chat) == ("user:\nHi\n\nassistant:\nHello\n\n", ["Hello\n\n"])


def test_template_without_marks_masks_each_answer():
    text, own = parts(ChatTemplate(CHATML), CHAT)
    assert text.startswith("<|im_start|>user\n1 + 1?<|im_end|>\n<|im_start|>assistant\n2, ")
    assert own == ["2, größer.<|im_end|>\n", "Yes.<|im_end|>\n"]


def test_template_with_marks_masks_the_text_between_them():
    template = ChatTemplate(MARKED, {"bos_token": "<s>", "eos_token": "</s>"})
    text, own = parts(template, CHAT)
    assert text == "<s>Q: 1 + 1?\nA: 2, größer.</s>Q: Sure?\nA: Yes.</s>"
    assert own == ["2, größer.</s>", "Yes.</s>"]


@pytest.mark.parametrize(
    ("template", "chat", "problem"),
    [
        (ChatTemplate(MARKED), [{"role": "tool", "content": "x"}], "no role tool"),
        (ChatTemplate(), [{"content": "x"}], "a message with a role"),
        (ChatTemplate(), [{"role": "user", "content": [{"type": "image"}]}], "got image"),
        (ChatTemplate(), ["x"], "expected messages"),
        (ChatTemplate(CHATML.replace("content'] +", "content'] | upper | last +")), [], ""),
    ],
)
def test_chat_that_the_template_rejects_raises(template, chat, problem):
    if not problem:
        assert template.render(chat) == ("", [])
        return
    with pytest.raises(ChatError, match=problem):
        template.render(chat)


def test_template_that_changes_earlier_messages_raises():
    changing = "{{ messages | length }}" + CHATML
    with pytest.raises(ChatError, match=r"put {% generation %}"):
        ChatTemplate(changing).render(CHAT)


def make_tokenizer(folder: Path, **files: str) -> str:
    """Write a byte tokenizer and files next to it; return its path."""
    tokenizers = pytest.importorskip("tokenizers")
    folder.mkdir()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE({c: n for n, c in enumerate(alphabet)}, [])
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<|im_start|>", "<|im_end|>", "<s>", "</s>"])
    path = folder / "tokenizer.json"
    made.save(str(path))
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return str(path)


def test_a_template_is_found_next_to_the_tokenizer(tmp_path):
    config = {"chat_template": CHATML, "eos_token": {"content": "</s>"}, "bos_token": "<s>"}
    path = make_tokenizer(tmp_path / "a", tokenizer_config__json=json.dumps(config))
    found = load_template(path)
    assert (found.source, found.special_tokens["eos_token"]) == (CHATML, "</s>")
    (tmp_path / "a/chat_template.jinja").write_text(MARKED)
    assert load_template(path).source == MARKED
    assert load_template("gpt2").source == load_template(str(tmp_path / "x.json")).source == ""


def test_invalid_jinja_template_raises(tmp_path):
    path = make_tokenizer(tmp_path / "a", chat_template__jinja="{% for %}")
    with pytest.raises(ConfigError, match="chat template Jinja reads"):
        load_template(path)


def tokens_and_mask(path: str, record: dict) -> tuple[str, str]:
    """Return the text of all tokens, and the text of the masked tokens."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(path)
    ids = np.frombuffer(record["tokens"][0], "<u2")
    mask = np.array(record["loss_mask"])
    assert mask.shape == ids.shape
    decode = lambda some: tokenizer.decode(some.tolist(), skip_special_tokens=False)  # noqa: E731
    return decode(ids), decode(ids[mask == 1])


def test_tokens_of_chats_have_a_mask_of_the_assistant(tmp_path):
    path = make_tokenizer(tmp_path / "a", chat_template__jinja=CHATML)
    rows = [{"messages": CHAT}, {"messages": CHAT[:1]}]
    data = "".join(json.dumps(row) + "\n" for row in rows)
    source = write_files(tmp_path / "in", {"train.jsonl": data})
    converted = convert(source, tmp_path / "out", tokenizer=path, keep_text=False)
    first, second = read_records(tmp_path / "out", converted)["train"]
    text, _ = ChatTemplate(CHATML).render(CHAT)
    assert tokens_and_mask(path, first) == (text, "2, größer.<|im_end|>\nYes.<|im_end|>\n")
    assert tokens_and_mask(path, second)[1] == ""
    assert "messages" not in first
    batch = next(iter(trainer_utils.iterate(str(tmp_path / "out"), "train", batch_size=2)))
    assert sorted(map(sum, batch["loss_mask"])) == sorted(
        sum(record["loss_mask"]) for record in (first, second)
    )


def test_chat_that_the_template_rejects_is_a_reject(tmp_path):
    config = json.dumps({"chat_template": MARKED, "bos_token": "<s>", "eos_token": "</s>"})
    path = make_tokenizer(tmp_path / "a", tokenizer_config__json=config)
    rows = [{"messages": CHAT}, {"messages": [{"role": "tool", "content": "x"}]}]
    data = "".join(json.dumps(row) + "\n" for row in rows)
    source = write_files(tmp_path / "in", {"train.jsonl": data})
    converted = convert(source, tmp_path / "out", tokenizer=path, max_reject_fraction=0.5)
    assert len(read_records(tmp_path / "out", converted)["train"]) == 1
    (reject,) = map(json.loads, (tmp_path / "out/rejects.jsonl").read_text().splitlines())
    assert (reject["source"], reject["code"]) == ("train.jsonl:2", "BAD_CHAT")


def test_packed_chats_count_only_the_assistant(tmp_path, subtests):
    path = make_tokenizer(tmp_path / "a", chat_template__jinja=CHATML)
    data = json.dumps({"messages": CHAT}) + "\n"
    source = write_files(tmp_path / "in", {"train.jsonl": data})
    converted = convert(source, tmp_path / "out", tokenizer=path)
    (record,) = read_records(tmp_path / "out", converted)["train"]
    ids, mask = np.frombuffer(record["tokens"][0], "<u2"), np.array(record["loss_mask"])
    for eos in (None, 259):
        with subtests.test(eos=eos):
            length = len(ids) + 3
            pack = trainer_utils.PackOptions(length=length, eos=eos)
            batches = trainer_utils.iterate(str(tmp_path / "out"), "train", batch_size=1, pack=pack)
            batch = next(iter(batches))
            # A weight applies to the target, which is the next token.
            ends = [0.0] if eos is None else [float(mask[-1]), 0.0]
            expected = [*mask[1:].astype(float), *ends]
            assert batch["loss_mask"][0, : len(expected)].tolist() == expected
            assert not batch["loss_mask"][0, len(expected) :].any()


def test_two_columns_of_chats_need_a_choice(tmp_path):
    path = make_tokenizer(tmp_path / "a")
    data = json.dumps({"chosen": CHAT, "rejected": CHAT}) + "\n"
    source = write_files(tmp_path / "in", {"train.jsonl": data})
    with pytest.raises(ConfigError, match=r"one column of texts, of chosen"):
        convert(source, tmp_path / "out", tokenizer=path)
    settings = {"tokenizer": path, "columns": {"chosen": "text"}}
    converted = convert(source, tmp_path / "out", **settings)
    (record,) = read_records(tmp_path / "out", converted)["train"]
    assert sum(record["loss_mask"]) > 0


def test_chats_of_python_and_of_csv_become_tokens(tmp_path):
    from pipelines import convert as convert_source

    path = make_tokenizer(tmp_path / "a", chat_template__jinja=CHATML)
    rows = [{"messages": CHAT, "n": n} for n in range(20)]
    result = convert_source(
        {"train": rows, "eval": rows[:2]}, str(tmp_path / "out"), tokenizer=path
    )
    batch = next(iter(trainer_utils.iterate(result, "train", batch_size=20)))
    assert {json.dumps(json.loads(text)) for text in batch["messages"]} == {json.dumps(CHAT)}
    assert all(sum(mask) > 0 for mask in batch["loss_mask"])
    quoted = json.dumps(CHAT).replace('"', '""')
    source = write_files(tmp_path / "in", {"train.csv": f'messages,n\n"{quoted}",1\n'})
    settings = {"columns": {"messages": "json"}, "tokenizer": path}
    converted = convert(source, tmp_path / "csv", **settings)
    (record,) = read_records(tmp_path / "csv", converted)["train"]
    assert json.loads(record["messages"][0]) == CHAT
    assert sum(record["loss_mask"]) > 0
