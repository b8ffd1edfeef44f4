"""The tables of settings in the docs have each setting with its default and description.

python -m tests.docs.test_settings     # writes the tables
"""

import re

import trainer_utils
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.inputs.rejects import REJECT_CODES
from components.runtime.component_settings import ComponentSettings
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
PAGES = sorted((REPOSITORY / "docs").glob("*.md"))
TABLE = re.compile(r"<!-- settings: (\w+) -->\n(.*?)<!-- end of settings -->", re.DOTALL)


def descriptions(settings):
    """Return the declared settings by name, with the descriptions of docstrings."""
    is_component = issubclass(settings, ComponentSettings)
    return settings.described() if is_component else settings_of(settings)


def rows(settings):
    """Return the rows of the table of settings."""
    lines = []
    for one in descriptions(settings).values():
        default = f"`{one.shown_default}`" if one.shown_default else ""
        description = one.sentence.replace("|", r"\|")
        lines.append(f"| `{one.name}` | {default} | {description} |")
    return lines


def tables():
    """Yield the name and the rows of each table of settings."""
    for page in PAGES:
        for name, table in TABLE.findall(page.read_text()):
            yield name, table.splitlines()[2:]


def test_tables_have_each_setting_with_its_description(subtests):
    known = dict(tables())
    for settings in DECLARED:
        with subtests.test(settings=settings.__name__):
            assert known[settings.__name__] == rows(settings)


def test_table_has_each_reject_code():
    expected = [f"| `{code}` | {cause} | {cure} |" for code, (cause, cure) in REJECT_CODES.items()]
    assert dict(tables())["RejectCodes"] == expected


def write_tables():
    """Write the rows of each table, except reject codes, into its page."""
    known = {settings.__name__: settings for settings in DECLARED}
    for page in PAGES:
        text = page.read_text()
        for name, table in TABLE.findall(text):
            if name in known:
                lines = [*table.splitlines()[:2], *rows(known[name])]
                text = text.replace(table, "\n".join(lines) + "\n")
        page.write_text(text)


if __name__ == "__main__":
    write_tables()
