"""The schema lists every word that a format writes into a column of words: queries are written with them."""

from __future__ import annotations

import pytest

from aftershock.parsers.formats import Format
from aftershock.parsers.registry import formats
from aftershock.parsers.selfcheck import rows_of_text
from aftershock.schemas.tables import TABLES

LISTED = {
    (table.row.table, column.name): set(column.values)
    for table in TABLES.values()
    for column in table.columns
    if column.values
}


@pytest.mark.parametrize("fmt", formats(), ids=lambda fmt: fmt.name)
def test_every_word_of_every_sample_is_listed(fmt: Format) -> None:
    unlisted = {
        (table, name, value)
        for sample in fmt.samples
        for row in rows_of_text(sample.text, fmt)
        for (table, name), words in LISTED.items()
        if table == row.table and (value := getattr(row, name)) is not None and value not in words
    }
    assert unlisted == set()
