"""Free text without names: what is shown is known to be harmless, whatever stands around a name."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aftershock.parsers.registry import formats
from aftershock.pipeline.pseudonyms.key import Key
from aftershock.pipeline.pseudonyms.names import HIDEABLE, Names
from aftershock.pipeline.pseudonyms.text import TextRule, is_harmless, vocabulary
from aftershock.schemas.tables import TABLES

KEY = Key(b"a key that only tests know")
ALL = tuple(HIDEABLE)


def names(hide: tuple[str, ...] = ALL) -> Names:
    known = Names(KEY, hide, {"10.20.0.71": "zqhost01"})
    for kind, name in (
        ("host", "zqhost01"),
        ("host", "zqhost02"),
        ("user", "zquser"),
        ("user", "1002"),
        ("path", "/home/zquser/zqrun"),
        ("path", "logs/zq lab/kern.log"),
        ("serial", "GPU-0A0A0A0A-1111-2222-3333-444444444401"),
        ("cluster", "train"),
        ("job", "zqpod-7"),
    ):
        known.learn(kind, name)  # type: ignore[arg-type]
    return known


RULE = TextRule(names())
HOST = names().pseudonym("host", "zqhost01")
OTHER = names().pseudonym("host", "zqhost02")
USER = names().pseudonym("user", "zquser")


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:c1:00): 13, Graphics Exception: ESR 0x505224=0x80000000",
        "_job_complete: JobId=9_2(12) WEXITSTATUS 137",
        "node state is DOWN* since 2026-03-01T12:00:00.123456+09:00, not responding",
        "Linux version 5.15.0-1053-aws, driver 535.104.05, firmware 96.00.61.00.01",
        "slurmd[1234]: error: read/write timeout after 30s, 512MiB of 80GB, 1.5e-05, 3/8 nvme0n1 mlx5_0",
        "Mar  2 07:08:09 fan 3 at 27.5 C, 99%",
        "root(0) on localhost, 127.0.0.1",
    ],
)
def test_harmless_text_stays(text: str) -> None:
    # The last line has accounts and addresses of every cluster: columns keep them, text has no column to say so.
    if text.startswith("root"):
        assert [names().shown("user", "root(0)"), names().shown("host", "localhost")] == ["root(0)", "localhost"]
    else:
        assert RULE(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("lost zqhost01.", f"lost {HOST}."),
        ("ZQHOST01.zqcorp.example: down", f"{HOST}: down"),
        ("[zqhost01]", f"[{HOST}]"),
        ("slurmstepd-zqhost01: [8.batch]", f"slurmstepd-{HOST}: [8.batch]"),
        ("train_zquser", f"{names().pseudonym('cluster', 'train')}_{USER}"),
        ("NodeList=zqhost[01-02] up", f"NodeList={','.join(sorted([HOST, OTHER]))} up"),
        ("zquser@zqhost01:/home/zquser/zqrun", f"{USER}@{HOST}:{names().pseudonym('path', '/home/zquser/zqrun')}"),
        ("uid=1002(zquser)", f"uid={names().pseudonym('user', '1002')}({USER})"),
        ("uid=1003", f"uid={names().pseudonym('user', '1003')}"),
        ("uid=0", "uid=0"),
        ("cluster train", f"cluster {names().pseudonym('cluster', 'train')}"),
        ("Serial Number : 132", f"Serial Number : {names().pseudonym('serial', '132')}"),
        (
            "gpu-0a0a0a0a-1111-2222-3333-444444444401!",
            f"{names().pseudonym('serial', 'GPU-0a0a0a0a-1111-2222-3333-444444444401')}!",
        ),
        ("pod zqpod-7 failed", f"pod {names().pseudonym('job', 'zqpod-7')} failed"),
        ("at 10.20.0.71:22", f"at {HOST}:22"),
        (
            "the same file as logs/zq lab/kern.log",
            f"the same file as {names().pseudonym('path', 'logs/zq lab/kern.log')}",
        ),
    ],
)
def test_known_names_have_the_same_pseudonym_in_text(text: str, shown: str) -> None:
    assert RULE(text) == shown


@pytest.mark.parametrize(
    "secret",
    [
        "zqfoo", "train-07", "gpu017", "gpu_rack[3-9]", "10.1.2.3", "ip-10-1-2-3", "10.1.2.3.443", "3.2.1.10.in-addr.arpa",
        "fe80::1ff:fe23:4567:890a", "00:1b:21:3c:9d:f8", "1324521034567", "0x0002c903000e0b72", "SN0324-X",
        "https://zqgit.example/a?b=c", "/data/team/run", "~zq/run", "Zoë", "Zoe\u0308", "z\0q\0f\0o\0o\0", "ｚｑfoo", "мира",
        "12345678-1234-1234-1234-123456789abc", "zq.foo@example.org", "node-b", "deadbeefcafe",
    ],
)  # fmt: skip
def test_what_no_column_tells_about_is_hidden_too(secret: str) -> None:
    shown = RULE(f"lost {secret} again")
    assert shown.startswith("lost ")
    assert shown.endswith(" again")
    assert secret not in shown
    assert "zq" not in shown.lower()


# A name that is no word and no number: with letters that no pseudonym has, so that a digest is never taken for it.
unknown = st.builds(
    "zq{}{}{}".format,
    st.text("ahz09", min_size=2, max_size=8),
    st.sampled_from(["", ".", "-", "_"]),
    st.text("a1", max_size=3),
)
quickly = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quickly
@given(st.text(max_size=20), unknown, st.text(max_size=20))
def test_no_surroundings_show_a_name(before: str, name: str, after: str) -> None:
    assert "zq" not in RULE(before.replace("q", "") + name + after.replace("q", ""))


@quickly
@given(st.text(max_size=40) | st.text("abz1fx0.-/:[]@=,_ é\0", max_size=40))
def test_every_word_that_is_shown_is_harmless_or_a_pseudonym(text: str) -> None:
    shown = re.sub(r"(?:word|host|path|serial|user)-[0-9a-f]{12}", " ", RULE(text))
    assert shown.isascii()
    for run in re.findall(r"[A-Za-z0-9]+", shown):
        # Hexadecimal digits stand in PCI addresses.
        assert is_harmless(run) or re.fullmatch(r"[0-9A-Fa-f]{2,8}|0x[0-9A-Fa-f]{1,8}", run), (text, run)


@quickly
@given(st.text(max_size=40))
def test_equal_texts_are_equal_and_nothing_raises(text: str) -> None:
    for hide in (ALL, ("users",), ("hosts", "serials")):
        assert TextRule(names(hide))(text) == TextRule(names(hide))(text)


def test_what_is_not_hidden_is_shown_unless_it_holds_what_is() -> None:
    users = TextRule(names(("users",)))
    assert users("zqhost01: /data/zqrun, GPU-0a0a0a0a-1111-2222-3333-444444444401") == (
        "zqhost01: /data/zqrun, GPU-0a0a0a0a-1111-2222-3333-444444444401"
    )
    assert users("zquser in /home/zquser/zqrun") == f"{USER} in /home/{USER}/zqrun"
    assert "zqother" not in users("/home/zqother/x")
    hosts = names(("hosts",))
    assert hosts.place("logs/zqhost01.log:77") == f"logs/{HOST}:77"
    assert hosts.shown("user", "zquser") == "zquser"


def test_another_key_gives_other_pseudonyms() -> None:
    other = Names(Key(b"another key of the tests"), ALL, {})
    assert other.pseudonym("host", "zqhost01") != HOST
    assert other.id("s-81f9d156836068d5") != names().id("s-81f9d156836068d5")


def test_long_words_take_no_longer_than_they_must() -> None:
    for piece in ("a", "a-", "1:", "ab:", "x[1,", "http", "GPU-", "serial ", "/", "é"):
        assert RULE(piece * 40_000)


def test_words_of_the_program_are_shown() -> None:
    """A kind or a state that a format gives must be in the vocabulary: queries are written with it."""
    for fmt in formats():
        for sample in fmt.samples:
            for want in sample.rows:
                enumerations = {column.name for column in TABLES[want.table].columns if column.values}
                for column in enumerations & want.fields.keys():
                    assert RULE(str(want.fields[column])) == str(want.fields[column]), (fmt.name, column)


def test_the_vocabulary_has_no_names_of_the_samples() -> None:
    words = vocabulary()
    assert all(word == word.lower() for word in words)
    shown = {"root", "slurm", "nobody", "system", "login", "node", "host", "gpu", "kernel"}
    for fmt in formats():
        for sample in fmt.samples:
            for want in sample.rows:
                for column in ("host", "host_raw", "user"):
                    name = str(want.fields.get(column) or "").lower()
                    assert name not in words - shown, (fmt.name, column, name)
