"""Alarms of a run and their scores, from what is known of all hosts over all time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aftershock.pipeline.config import Config
from aftershock.pipeline.metrics.alarm_scores import Candidates, Scorer
from aftershock.pipeline.metrics.alarms import Signals, alarm_rows
from aftershock.pipeline.metrics.faults import Fault
from aftershock.pipeline.metrics.healthy_time import Exposure
from aftershock.pipeline.metrics.scoring import Scoring
from aftershock.pipeline.metrics.segments import segments_of
from aftershock.pipeline.metrics.signal_cells import SignalCells
from aftershock.pipeline.metrics.spans import Spans
from aftershock.schemas.incidents import Finding
from aftershock.schemas.metrics import Alarm
from aftershock.schemas.sessions import Session

# With less healthy time than this, in days of the cluster, nothing is known of what is usual: only windows were given.
_LEAST_DAYS = 1 / 24


def detect(
    signals: SignalCells,
    faults: Sequence[Fault],
    ill: Mapping[str, Spans],
    sessions: Sequence[Session],
    config: Config,
) -> tuple[list[Alarm], list[Finding]]:
    """Alarms and their scores; nothing if there are only the times around faults."""
    scorer = Scorer(signals, config.alarms)
    watched = scorer.watched()
    exposure = Exposure(scorer.first, scorer.end, scorer.step_ms, ill)
    found: list[Candidates] = []
    for one in scorer.scored(segments_of(sessions, watched, scorer.step_ms)):
        if isinstance(one, Candidates):
            found.append(one)
        else:
            exposure.add([one])
    if exposure.between(scorer.first, scorer.end).cluster_days < _LEAST_DAYS:
        return [], []
    kept = Signals.of(found, scorer.features, scorer.families, config.alarms, scorer.step_ms)
    scrape_ms = max(scorer.step_ms, round(1000 * (config.cluster.scrape_interval_s or 0.0)))
    scoring = Scoring(kept, faults, ill, exposure, (scorer.first, scorer.end), scrape_ms)
    return alarm_rows(scoring.episodes), list(scoring.findings())
