"""Beam imported without what no run uses: what it does without is still there for whoever asks."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from aftershock.pipeline.quick_beam import beam

_SEEN = """
import sys
from aftershock.pipeline.quick_beam import beam
loaded = [n for n in ("beartype", "yaml.loader", "pyparsing", "pandas") if n in sys.modules]
{after}
"""


def seen(after: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _SEEN.format(after=after)], check=True, capture_output=True, text=True
    )  # fmt: skip
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("print(loaded)", "[]"),
        ("import yaml; print(yaml.safe_load('a: [1]'), yaml.__name__)", "{'a': [1]} yaml"),
        ("from yaml import safe_load; print(safe_load('a: [1]'))", "{'a': [1]}"),
        ("import yaml.constructor as c, yaml; print(issubclass(yaml.SafeLoader, c.SafeConstructor))", "True"),
        ("import httplib2; print(httplib2.Http.__name__, bool(httplib2.__version__))", "Http True"),
        ("from apache_beam.transforms import external as e; print(e.yaml.safe_load('a: [1]'))", "{'a': [1]}"),
        ("from apache_beam.internal.http_client import get_new_http; print(type(get_new_http()).__name__)", "Http"),
        ("from apache_beam.typehints import typehints as t; print(t.is_consistent_with(bool, int))", "True"),
        ("from apache_beam.typehints import typehints as t; print(t.is_consistent_with(str, int))", "False"),
        ("from apache_beam.typehints import typehints as t; print(t.is_consistent_with(1.5, int))", "False"),
        ("import beartype.door; print(beartype.door.is_subhint(int, object))", "True"),
        ("import pandas; print(pandas.Series([1]).sum())", "1"),
    ],
)
def test_what_is_left_out_is_there_when_it_is_asked_for(after: str, said: str) -> None:
    assert seen(after) == said


def test_state_and_timers_are_found() -> None:
    from apache_beam.transforms import userstate

    class Counts(beam.DoFn):  # type: ignore[misc]
        COUNT = userstate.CombiningValueStateSpec("count", sum)

        def process(self, element: object, count: object = beam.DoFn.StateParam(COUNT)) -> None: ...

    class Plain(beam.DoFn):  # type: ignore[misc]
        def process(self, element: object) -> None: ...

    for _ in range(2):
        assert userstate.is_stateful_dofn(Counts())
        assert not userstate.is_stateful_dofn(Plain())
        assert userstate.get_dofn_specs(Counts())[0] == {Counts.COUNT}


def test_stages_do_not_wait_for_their_sampler() -> None:
    from apache_beam.runners.worker.statesampler import StateSampler

    assert inspect.signature(StateSampler.__init__).parameters["sampling_period_ms"].default <= 5


def test_work_on_partitions_needs_no_beam() -> None:
    """Workers do it, and would wait for the import."""
    modules = ("chunks", "host_work", "job_work", "lineage_work", "parts", "work")
    names = ", ".join(f"aftershock.pipeline.{module}" for module in modules)
    code = f"import sys, {names}; print('apache_beam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"
