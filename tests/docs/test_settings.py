"""The tables of settings in the docs have each setting with its default."""

import re

import trainer_utils
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.inputs.rejects import REJECT_CODES
from components.settings import AuditSettings, DatasetReportSettings, SchemaExportSettings
from tests.docs.markdown import REPOSITORY
from trainer_utils.core.settings import settings_of
from trainer_utils.writing.dataset_writer import WriterSettings

DECLARED = [
    *(ImageSettings, TextSettings, AudioSettings, BalancerSettings, SchemaExportSettings),
    *(AuditSettings, DatasetReportSettings, WriterSettings, trainer_utils.InputOptions),
    *(trainer_utils.ImageOptions, trainer_utils.LabelOptions, trainer_utils.CacheOptions),
    trainer_utils.PackOptions,
]
TABLE = re.compile(r"<!-- settings: (\w+) -->\n(.*?)<!-- end of settings -->", re.DOTALL)


def tables():
    """Return the rows of each table of settings, as lists of cells."""
    for page in sorted((REPOSITORY / "docs").glob("*.md")):
        for name, table in TABLE.findall(page.read_text()):
            rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
            yield name, [[cell.strip("` ") for cell in row] for row in rows]


def test_tables_have_each_setting_and_default(subtests):
    for settings in DECLARED:
        with subtests.test(settings=settings):
            declared = settings_of(settings).values()
            rows = dict(tables())[settings.__name__]
            assert [row[:2] for row in rows] == [[one.name, one.shown_default] for one in declared]


def test_table_has_each_reject_code():
    expected = [
        [code, cause.strip("` "), cure.strip("` ")] for code, (cause, cure) in REJECT_CODES.items()
    ]
    assert dict(tables())["RejectCodes"] == expected
