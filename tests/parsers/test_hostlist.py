"""Host lists: what they stand for, and what is refused before it is expanded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.hostlist import CAP, HostListError, expand_hosts
from tests.timing import seconds


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("dgx07", ["dgx07"]),
        ("dgx[07-09]", ["dgx07", "dgx08", "dgx09"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[01-3]", ["n01", "n02", "n03"]),
        ("n[098-101],login1", ["n098", "n099", "n100", "n101", "login1"]),
        ("b[3,1,2]", ["b3", "b1", "b2"]),
        ("r[1-2]c[1,3]-ib", ["r1c1-ib", "r1c3-ib", "r2c1-ib", "r2c3-ib"]),
        ("x1000a[1-2]", ["x1000a1", "x1000a2"]),
        ("a.example.org,b-c_d", ["a.example.org", "b-c_d"]),
        ("n1,n1,n[1-2]", ["n1", "n2"]),
        ("[1-2]", ["1", "2"]),
        (" n1, n2 ", ["n1", "n2"]),
        ("", []),
        ("  ", []),
        ("(null)", []),
        ("None assigned", []),
        ("N/A", []),
    ],
)
def test_expands(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("n[1-", "never closed"),
        ("n1]", "never opened"),
        ("n[1-[2-3]]", "within brackets"),
        ("n[5-3]", "reversed range 5-3"),
        ("n[]", "not a range"),
        ("n[1,,2]", "not a range"),
        ("n[a-c]", "not a range"),
        ("n[1-2-3]", "not a range"),
        ("n1,,n2", "empty name"),
        ("n1,", "empty name"),
        ("n1 n2", "no host name has"),
        ("n=1", "no host name has"),
        ("n[1-9999999999999999999]", "too long"),
        ("n[0-9999999999]", f"more than {CAP}"),
        ("a[1-99999]b[1-99999]c[1-99999]", f"more than {CAP}"),
        (",".join(["n[1-60000]", "m[1-60000]"]), f"more than {CAP}"),
        ("n" * 300, "more than 255 characters"),
    ],
)
def test_refuses_with_a_reason(text: str, reason: str) -> None:
    def refused() -> None:
        with pytest.raises(HostListError, match=reason.replace("[", r"\[")):
            expand_hosts(text)

    assert seconds(refused, enough=1.0) < 1.0


def test_cap_is_inclusive() -> None:
    assert len(expand_hosts("n[1-10]", cap=10)) == 10
    with pytest.raises(HostListError):
        expand_hosts("n[1-11]", cap=10)


def test_error_is_a_value_error() -> None:
    assert issubclass(HostListError, ValueError)


RANGES = st.tuples(st.integers(0, 200), st.integers(0, 12), st.integers(0, 4)).map(
    lambda r: [str(n).zfill(max(r[2], len(str(r[0])))) for n in range(r[0], r[0] + r[1] + 1)]
)
GROUPS = st.lists(RANGES, min_size=1, max_size=3)


@given(
    prefix=st.sampled_from(["n", "gpu8x", "rack-"]),
    groups=st.lists(GROUPS, max_size=2),
    suffix=st.sampled_from(["", "-ib"]),
)
def test_writes_and_expands(prefix: str, groups: list[list[list[str]]], suffix: str) -> None:
    text, names = prefix, [prefix]
    for group in groups:
        text += "[" + ",".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else r[0] for r in group) + "]" + suffix
        names = [name + number + suffix for name in names for r in group for number in r]
    assert expand_hosts(text) == list(dict.fromkeys(names))


@given(st.text(alphabet="n1,[]-9 (\x00é", max_size=40))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand_hosts(text, cap=1000)
    except HostListError:
        return
    assert len(names) == len(set(names)) <= 1000
