"""Names of months in syslog time stamps, which follow the locale of the host that wrote them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

# Abbreviations as glibc prints them (%b), without the dot: English, German, French, Spanish, Italian, Portuguese,
# Dutch, Swedish, Danish, Polish, Czech, Turkish, Russian.
_NAMES: Final = (
    "jan january januar januari janvier janv jän ene enero gen gennaio janeiro sty oca led янв",
    "feb february februar februari février févr fév febr febrero fev fevereiro lut şub úno фев",
    "mar march märz mär mrz mars marzo março mrt maart mrt mars bře мар",
    "apr april avr avril abr abril aprile kwi nis dub апр",
    "may mai mayo mag maggio maio mei maj kvě мая май",
    "jun june juni juin junio giu giugno cze haz чер июн",
    "jul july juli juil juillet julio lug luglio julho lip tem čec июл",
    "aug august août aoû ago agosto augustus sie ağu авг",
    "sep sept september septembre septiembre set settembre setembro wrz eyl zář сен",
    "oct october okt oktober octobre octubre ott ottobre out outubro paź eki říj окт",
    "nov november novembre noviembre novembro kas ноя",
    "dec december dez dezember déc décembre dic diciembre dicembre dezembro gru ara pro дек",
)
_MONTHS: Final = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}

# Words that are different months in different languages (Polish and Croatian, Czech and Croatian).
_AMBIGUOUS: Final = frozenset({"lis", "srp", "lip", "tra", "чер", "led", "pro"})


@lru_cache(maxsize=1024)
def month_number(word: bytes) -> int | None:
    """1 to 12 for ``May``, ``Okt``, ``févr.`` or ``6月``; None if it is no month, or not the same one everywhere."""
    name = _text_of(word).lower().rstrip(".")
    if name[:-1].isascii() and name[:-1].isdigit():  # 6月, 6월
        number = int(name[:-1])
        return number if 1 <= number <= 12 else None
    if name in _AMBIGUOUS:
        return None
    known = _MONTHS.get(name)
    if known is not None or name.isascii():
        # A plain word that is in no table is a word, not a month: programs print such lines too.
        return known
    return _month_elsewhere(name)


def _text_of(word: bytes) -> str:
    """A name in UTF-8, or in Latin-1 as hosts with an old locale write it (``M\\xe4r``)."""
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return word.decode("latin-1")


def _month_elsewhere(name: str) -> int | None:
    """A month in one of the many languages that dateparser knows: slow, asked once for a word."""
    import dateparser  # noqa: PLC0415  (takes a third of a second to load, and is rarely needed)

    try:
        moment = dateparser.parse(f"15 {name} 2001", settings={"STRICT_PARSING": True})
    except Exception:  # it is handed whatever stands in a log, and a word that it cannot read is no month
        return None
    return moment.month if moment is not None and (moment.year, moment.day) == (2001, 15) else None
