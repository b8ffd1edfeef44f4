"""Headers are believed where they can be nothing else; else one question, and no row is lost."""

import pytest

from components.tables.headers import find_header_doubt
from trainer_utils.format import InputError

# First rows of tables as people publish them, each with rows below it.
HEADERS = {
    "reviews": (["text", "label"], [["A lovely film", "pos"], ["A bore", "neg"]]),
    "IMDB": (["review", "sentiment"], [["One of the best", "positive"], ["Bad", "negative"]]),
    "capitals": (["Text Label"], [["a cat sat"], ["on the mat"]]),
    "not ASCII": (["größe", "名前", "текст"], [["klein", "太郎", "да"], ["groß", "花子", "нет"]]),
    "one column": (["text"], [["so good"], ["so bad"]]),
    "iris": (
        ["sepal length (cm)", "sepal width (cm)", "species"],
        [["5.1", "3.5", "setosa"], ["7.0", "3.2", "versicolor"]],
    ),
    "titanic": (
        ["PassengerId", "Survived", "Name", "Cabin"],
        [["1", "0", "Braund, Mr. Owen", ""], ["2", "1", "Cumings, Mrs.", "C85"]],
    ),
    "a question": (["How old are you?", "Do you like it?"], [["31", "yes"], ["45", "no"]]),
    "MNIST": (["label", "1x1", "1x2"], [["5", "0", "0"], ["0", "0", "3"]]),
    "one hot": (["comment", "toxic", "severe_toxic"], [["You", "0", "1"], ["Me", "1", "0"]]),
    "dotted": (["author.name", "author.age"], [["Ann", "3"], ["Bob", "4"]]),
    "a known name below another": (["class", "words"], [["text", "label"], ["b", "c"]]),
    "a list of words": (["word"], [["hello"], ["world"]]),
}
ROWS = {
    "a sentence and a class": (
        ["The film was great", "pos"],
        [["A bore", "neg"], ["Nice", "pos"]],
    ),
    "a class and a sentence": (["ham", "Go until jurong point, crazy.."], [["spam", "Free entry"]]),
    "sentences of two words": (["Great film!", "up"], [["Bad film.", "down"]]),
    "one sentence alone": (["I love it"], [["I hate it"], ["So so"]]),
    "a number": (["great", "5"], [["bad", "1"]]),
    "numbers": (["5.1", "3.5", "1.4"], [["4.9", "3.0", "1.4"]]),
    "a missing name": (["", "text"], [["0", "a"], ["1", "b"]]),
    "the same twice": (["a", "b", "a"], [["1", "2", "3"]]),
    "numbered rows": (["r001", "great"], [["r002", "bad"], ["r003", "meh"]]),
    "urls": (["gs://bucket/a", "cat"], [["gs://bucket/b", "dog"]]),
    "a long text": (["word" * 200], [["x"]]),
    "Chinese sentences": (["我很喜欢这部电影。", "好"], [["不好看。", "坏"]]),
}


def test_a_header_is_believed_and_a_row_of_values_is_not():
    for case, (first, rows) in HEADERS.items():
        assert find_header_doubt(first, rows) is None, case
    for case, (first, rows) in ROWS.items():
        assert find_header_doubt(first, rows) is not None, case


LINES = ["The film was great,pos\n", "A bore,neg\n", "So so,pos\n"]
FILES: dict[str, dict[str, bytes | str]] = {
    "one file": {"t.csv": "".join(LINES)},
    "TSV": {"t.tsv": "".join(LINES).replace(",", "\t")},
    "three files": {f"{n}.tsv": line.replace(",", "\t") for n, line in enumerate(LINES)},
    "split folders": {"train/a.csv": "".join(LINES[:2]), "test/b.csv": LINES[2]},
    "quoted": {"t.csv": '"The film was great","pos"\n"A bore",neg\n"So so","pos"\n'},
    "a byte order mark": {"t.csv": b"\xef\xbb\xbf" + "".join(LINES).encode()},
    "short words": {"a.csv": "great,up\n", "b.csv": "bad,down\nso so,up\n"},
}


def test_tables_without_a_header_ask_one_question_and_the_answer_keeps_every_row(convert):
    for files in FILES.values():
        with pytest.raises(InputError, match=r"column_names=\['text', 'label'\].*header=True"):
            convert(files)
        dataset = convert(files, column_names=["text", "label"])
        assert dataset.counts()["written"] == 3
        assert len(dataset.vocabulary()) == 2


def test_the_first_row_is_a_header_where_the_user_says_so(convert):
    for first, columns in ((",text,label", None), ("a,a,b", None), ("1,2,3", {"1", "2", "3"})):
        files = {"t.csv": f"{first}\n0,good,pos\n1,bad,neg\n"}
        with pytest.raises(InputError):
            convert(files)
        names = [] if columns else ["number", "text", "label"]
        given = {"column_names": names} if names else {}
        dataset = convert(files, header=True, **given)
        assert dataset.counts()["written"] == 2
        assert dataset.features.keys() >= {*(columns or names)}
