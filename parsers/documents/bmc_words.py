"""What the sensors of a management controller (BMC) mean: which of their words are faults, and of which kind.

The words are those of the IPMI specification (tables 42-1 to 42-3) as ipmitool prints them; Redfish logs that come from
a system event log use the same ones. https://www.intel.com/content/www/us/en/products/docs/servers/ipmi/ipmi-home.html
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Fault(NamedTuple):
    """kind: of the node event; result: of the health check, ``fail`` or ``warn``."""

    kind: str
    result: str


class _Rule(NamedTuple):
    """sensor: which sensors; words: which of their states; then what it is."""

    sensor: re.Pattern[str]
    words: re.Pattern[str]
    fault: Fault


def _rule(sensor: str, words: str, kind: str, result: str = "fail") -> _Rule:
    return _Rule(re.compile(sensor, re.IGNORECASE), re.compile(words, re.IGNORECASE), Fault(kind, result))


# The first rule that holds counts. ``Correctable`` alone also stands in ``Uncorrectable``.
_RULES: Final = (
    _rule(r"", r"\bthermal trip\b|critical over-?temperature", "thermal"),
    _rule(r"^memory|dimm", r"uncorrectable|parity|scrub failed|memory device disabled", "memory_error"),
    _rule(r"^memory|dimm", r"correctable|ecc|logging limit", "memory_error", "warn"),
    _rule(r"^(?:critical interrupt|pci|slot|bus)", r"uncorrectable|fatal|\bserr\b|\bperr\b|bus timeout", "pcie_error"),
    _rule(r"^(?:critical interrupt|pci|slot|bus)", r"correctable|bus degraded", "pcie_error", "warn"),
    _rule(r"^critical interrupt", r"\bnmi\b", "machine_check"),
    _rule(r"^(?:processor|cpu)", r"\bcorrectable machine check|^correctable", "machine_check", "warn"),
    _rule(r"^(?:processor|cpu)", r"throttled", "thermal", "warn"),
    _rule(
        r"^(?:processor|cpu)", r"ierr|machine check|mcerr|\bfrb[123]|uncorrectable|configuration error", "machine_check"
    ),
    _rule(
        r"^power (?:supply|unit)|^psu",
        r"predictive|out-of-range|redundancy (?:lost|degraded)|insufficient",
        "power",
        "warn",
    ),
    _rule(r"^power (?:supply|unit)|^psu", r"fail|lost|inactive|config error|power off|power down|power cycle", "power"),
    _rule(r"^(?:temp|fan|thermal|cooling)", r"non-critical|redundancy", "thermal", "warn"),
    _rule(r"^(?:temp|fan|thermal|cooling)", r"critical|non-recoverable|fail|transition to|limit exceeded", "thermal"),
    _rule(r"^(?:voltage|current)", r"non-critical", "power", "warn"),
    _rule(r"^(?:voltage|current)", r"critical|non-recoverable|fail|limit exceeded", "power"),
    _rule(r"^os (?:critical )?stop|^os boot", r"run-time critical stop", "panic"),
    _rule(r"^system firmware error", r"\bmemory\b", "memory_error"),
    _rule(r"^system firmware error", r"fail|error|mismatch|corrupt|unrecoverable", "machine_check"),
    # A board measures much; what, stands in the name of the sensor.
    _rule(r"^(?:module|add-in card|chassis|other).*(?:pwr|power|volt|curr)", r"(?<!non-)critical\b", "power"),
    _rule(r"^(?:module|add-in card|chassis|other).*(?:temp|therm)", r"(?<!non-)critical\b", "thermal"),
    _rule(r"^system event", r"undetermined system hardware failure", "machine_check"),
    _rule(r"^watchdog", r"reset|power (?:down|cycle)|timer expired|os expired", "watchdog"),
    _rule(r"^drive", r"fault|failed array", "drive_error"),
    _rule(r"^drive", r"predictive|critical array|rebuild aborted", "drive_error", "warn"),
)
# States that stand for health or for nothing: they must not be taken for faults by a word that they share.
_FINE: Final = re.compile(
    r"^(?:presence detected|device (?:present|enabled)|fully redundant|limit not exceeded|transition to ok|state "
    r"deasserted"
    r"|s0/g0|drive present|informational|monitor)\b",
    re.IGNORECASE,
)


def fault_of(sensor: str, words: str) -> Fault | None:
    """What the state of a sensor means; None if it is no fault, or not known to be one."""
    if _FINE.match(words):
        return None
    return next((rule.fault for rule in _RULES if rule.sensor.search(sensor) and rule.words.search(words)), None)


# Kinds of faults told in sentences, as in logs that no sensor wrote. The first that is named counts.
_TOPICS: Final = (
    ("memory_error", re.compile(r"\becc\b|dimm|\bmem(?:ory)?(?:\b|\d|ecc)|row remap|page retire", re.IGNORECASE)),
    ("pcie_error", re.compile(r"\bpci(?:e| express)?(?:\b|\d)|\bbus (?:fatal|uncorrect|correct)", re.IGNORECASE)),
    ("machine_check", re.compile(r"machine check|\bierr\b|\bmcerr\b|\b(?:cpu|processor)(?:\b|\d)", re.IGNORECASE)),
    (
        "thermal",
        re.compile(r"therm|temperature|overheat|\b(?:fan|cooling)(?:\b|\d)|coolant|\bleak", re.IGNORECASE),
    ),
    ("power", re.compile(r"power ?(?:supply|input|loss|lost|fault|rail|brake)|\bpsu(?:\b|\d)|voltage", re.IGNORECASE)),
)


def topic_of(text: str) -> str | None:
    """The kind of fault that a sentence is about, if it is about one."""
    return next((kind for kind, words in _TOPICS if words.search(text)), None)
