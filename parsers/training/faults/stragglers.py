"""Ranks and nodes that are slower than the others, as tools say it that compare them. The run goes on.

    STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: {StragglerId(rank=3, ...)}
      Rank=3 Node=gpu017 Score=0.52
    Detected stragglers. Terminating training...
    [2026-03-01 10:20:30] | MnRtt/Rnk: 110.20ms/2 | MxRtt/Rnk: 180.55ms/3 | ... | MnEtpt/Rnk: 98.20TF/3 | ...
    ^^^^ Bottom 2 Ranks with lowest  Etpt(TF): 98.20/3, 150.10/1,
    Straggler: {3: 41.5}.
    This node is a straggler!

https://github.com/NVIDIA/nvidia-resiliency-ext: ptl_resiliency/straggler_det_callback.py, attribution/straggler/
reporting.py (a score is a share of the best, and below 0.75 it names a straggler; it was 0.7); https://github.com/
NVIDIA/Megatron-LM: core/utils.py, which prints the slowest and the fastest rank at every step that it prints, so they
count only where they are apart; https://github.com/intelligent-machine-learning/dlrover: the check of the nodes, which
counts nodes rather than ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aftershock.parsers.envelopes.layer import text_of
from aftershock.parsers.formats import Sample, expect
from aftershock.parsers.patterns import later
from aftershock.parsers.training.faults.talk import is_shown
from aftershock.parsers.training.rules import Match, Rule, Said, number
from aftershock.schemas.events import TrainingEvent

_CLASS: Final = "slowdown"
_NAMED: Final = re.compile(
    rb"rank=(?P<rank>\d{1,7})(?:, node='(?P<node>[^'\s]{1,253})')?\)|(?<=[{ ])(?P<bare>\d{1,7})\b"
)
# A score that names a straggler, whatever version of the tool prints it.
_SCORE: Final = 0.7
# So much slower than the fastest rank is slow: steps of that length would be, too.
_APART: Final = 1.05
_REPORT: Final = re.compile(
    rb"MxRtt/Rnk: (?P<most>\d[\d.]{0,20})ms/(?P<rank>\d{1,7})\b[^\r\n]{0,900}?"
    rb"(?:MnEtpt/Rnk: (?P<low>\d[\d.]{0,20})TF/(?P<lowest>\d{1,7}) \| MxEtpt/Rnk: (?P<high>\d[\d.]{0,20})TF/\d{1,7})"
)
_BOTTOM: Final = re.compile(rb"\^{4} Bottom \d{1,7} Ranks with lowest  Etpt\(TF\):(?P<ranks>[^\r\n]{1,4000})")
_PAIR: Final = re.compile(rb" (\d[\d.]{0,20})/(\d{1,7}),")
_MOST_RANKS: Final = 4096


def _straggler(error: bytes, ranks: list[int], node: bytes | None = None) -> TrainingEvent:
    row = TrainingEvent(kind="straggler", error_class=_CLASS, error_role="symptom", error=text_of(error).strip())
    row.rank = ranks[0] if len(ranks) == 1 else None
    row.ranks = ranks or None
    row.host_raw = text_of(node) if node else None
    return row


def _read_named(found: Match, said: Said) -> Iterator[TrainingEvent]:
    """One event for each node, or for all ranks where no nodes are named."""
    if is_shown(said, found.start("error")):
        return
    by_node: dict[bytes | None, set[int]] = {}
    for count, one in enumerate(_NAMED.finditer(found["ranks"])):
        if count >= _MOST_RANKS:
            break
        by_node.setdefault(one["node"], set()).add(int(one["rank"] or one["bare"]))
    for node, ranks in sorted(by_node.items(), key=lambda item: item[0] or b""):
        yield _straggler(found["error"], sorted(ranks), node)


def _read_score(found: Match, _said: Said) -> TrainingEvent | None:
    score = number(found["score"])
    if score is None or not score < _SCORE:
        return None
    return _straggler(found[0], [int(found["rank"])], found["node"])


def _read_report(found: Match, said: Said) -> TrainingEvent | None:
    report = _REPORT.search(said.message, found.end())
    fastest = number(found["least"])
    if report is None or fastest is None:
        return None
    slowest, low, high = number(report["most"]), number(report["low"]), number(report["high"])
    if slowest is None or low is None or high is None or not slowest > _APART * fastest:
        return None
    ranks = {int(report["rank"])}
    if low * _APART < high:
        ranks.add(int(report["lowest"]))
        # The lines below it name more of them.
        bottom = _BOTTOM.search(next(iter(said.below(1)), b""))
        for value, rank in _PAIR.findall(bottom["ranks"] if bottom else b""):
            if (number(value) or high) * _APART < high:
                ranks.add(int(rank))
    error = b"MnRtt/Rnk: %bms/%b | %b" % (found["least"], found["fastest"], report[0])
    return _straggler(error, sorted(ranks))


def _read_node(found: Match, said: Said) -> TrainingEvent | None:
    return None if is_shown(said, found.start("error")) else _straggler(found["error"], [])


RULES: Final = (
    Rule(
        words=(b"STRAGGLER DETECTION WARNING: ",),
        shape=later(
            rb"(?P<error>STRAGGLER DETECTION WARNING: Some GPUs (?:have worse relative performance|performance "
            rb"dropped)\. Affected ranks: (?P<ranks>[{\[][^\r\n]{0,60000}))"
        ),
        row=_read_named,
    ),
    Rule(
        words=(b" Score=0.",),
        shape=later(rb"\A\s*Rank=(?P<rank>\d{1,7}) Node=(?P<node>\S{1,253}) Score=(?P<score>0\.\d{1,9})\s*\Z"),
        row=_read_score,
    ),
    Rule(
        words=(b"MnRtt/Rnk: ",),
        shape=later(rb"(?:\A|\| ?)MnRtt/Rnk: (?P<least>\d[\d.]{0,20})ms/(?P<fastest>\d{1,7}) \|"),
        row=_read_report,
    ),
    Rule(
        words=(
            b"Detected stragglers. Terminating training",
            b"This node is a straggler!",
            b"The node is a straggler and exits",
            b"Straggler: {",
            b"and stragglers are: [",
        ),
        shape=later(
            rb"(?:\A|[\]:] )(?P<error>Detected stragglers\. Terminating training\.\.\."
            rb"|This node is a straggler!|Straggler: \{\d[^}\r\n]{0,4000}\}\."
            rb"|Fault nodes are: [^\r\n]{0,2000}?and stragglers are: \[\d[^\]\r\n]{0,4000}\] with reason: "
            rb"[^\r\n]{0,200})"
        ),
        row=_read_node,
    ),
)

SAMPLES: Final = (
    Sample(
        "[NeMo W 2026-03-01 10:20:30 straggler_det_callback:124] STRAGGLER DETECTION WARNING: Some GPUs have worse "
        "relative performance. Affected ranks: {StragglerId(rank=11, node='gpu018'), StragglerId(rank=3, "
        "node='gpu017')}\n",
        (
            expect(
                "training_events",
                kind="straggler",
                error_class="slowdown",
                error_role="symptom",
                rank=3,
                ranks=[3],
                host="gpu017",
            ),
            expect("training_events", kind="straggler", rank=11, ranks=[11], host="gpu018"),
        ),
        title="NVRx: stragglers",
        url="https://github.com/NVIDIA/nvidia-resiliency-ext",
    ),
    Sample(
        "STRAGGLER DETECTION WARNING: Some GPUs performance dropped. Affected ranks: {1, 2}\n",
        (expect("training_events", kind="straggler", rank=None, ranks=[1, 2], host=None),),
        title="NVRx: stragglers of earlier versions",
    ),
    Sample(
        "GPU relative performance:\n Worst performing 2/16 ranks:\n  Rank=3 Node=gpu017 Score=0.52\n"
        "  Rank=5 Node=gpu017 Score=0.97\n Best performing 2/16 ranks:\n  Rank=1 Node=gpu017 Score=1.00\n",
        (expect("training_events", kind="straggler", rank=3, host="gpu017"),),
        title="NVRx: scores",
    ),
    Sample(
        "INFO:megatron.core.utils:[2026-03-01 10:20:30] | MnRtt/Rnk: 110.20ms/2 | MxRtt/Rnk: 180.55ms/3 | MnPwr/Rnk: "
        "301.20W/3 | MxPwr/Rnk: 640.10W/0 | MnTmp/Rnk: 41.00C/1 | MxTmp/Rnk: 84.00C/3 | MnUtl/Rnk: 97.00%/3 | "
        "MxUtl/Rnk: 100.00%/0 | MnClk/Rnk: 1155.00MHz/3 | MxClk/Rnk: 1980.00MHz/0 | MnDRtt/Rnk: 11.20us/2 | "
        "MxDRtt/Rnk: 15.90us/7 | MnEtpt/Rnk: 98.20TF/3 | MxEtpt/Rnk: 160.95TF/2\n"
        "INFO:megatron.core.utils:^^^^ Bottom 2 Ranks with lowest  Etpt(TF): 98.20/3, 150.10/1,\n"
        "INFO:megatron.core.utils:^^^^ Top    2 Ranks with highest Etpt(TF): 160.10/0, 160.95/2,\n",
        (expect("training_events", kind="straggler", error_class="slowdown", ranks=[1, 3]),),
        title="Megatron-LM: ranks that are far apart",
        url="https://github.com/NVIDIA/Megatron-LM",
    ),
    Sample(
        "[2026-03-01 10:20:30,123] [WARNING] [rdzv_manager.py:854:get_straggler] Straggler: {3: 41.5}.\n"
        "[2026-03-01 10:20:31,123] [WARNING] [training.py:2199:run] This node is a straggler!\n",
        (
            expect("training_events", kind="straggler", error="Straggler: {3: 41.5}.", ranks=None),
            expect("training_events", kind="straggler", error="This node is a straggler!"),
        ),
        title="DLRover: a straggler",
        url="https://github.com/intelligent-machine-learning/dlrover",
    ),
)

NON_SAMPLES: Final = (
    "[NeMo I 2026-03-01 10:20:30 straggler_det_callback:254] Straggler report processing time: 0.042 sec.\n",
    "  Rank=5 Node=gpu017 Score=0.97\n",
    "Toggling StragglerDetector State ON\n",
    "INFO:megatron.core.utils:[2026-03-01 10:20:30] | MnRtt/Rnk: 110.20ms/2 | MxRtt/Rnk: 111.55ms/3 | MnPwr/Rnk: "
    "601.20W/3 | MxPwr/Rnk: 640.10W/0 | MnEtpt/Rnk: 158.20TF/3 | MxEtpt/Rnk: 160.95TF/2\n",
    "Fault nodes are: [] with reason: , and stragglers are: [] with reason: \n",
    'logger.warning("This node is a straggler!")\n',
    "INFO:flwr: strategy drops stragglers: Straggler: {}.\n",
)
