"""Credentials never leave a parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aftershock.parsers.redact import redact, redact_row
from aftershock.schemas.sessions import Session
from tests.timing import seconds

SECRET = "s3cr3tVALUE99xyz"


@pytest.mark.parametrize(
    "text",
    [
        f"git clone https://bob:{SECRET}@git.example/x.git",
        f"pip --index-url https://{SECRET}@host.example/simple",
        f"WANDB_API_KEY={SECRET} python train.py",
        f"export HF_TOKEN='{SECRET}'",
        f"curl -H 'Authorization: Bearer {SECRET}' https://host.example",
        f"Authorization: Basic {SECRET}==",
        f"mysql --password={SECRET} -h db",
        f"train.py --auth-token {SECRET} --steps 10",
        f'{{"password": "{SECRET}", "user": "bob"}}',
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
        f"https://blob.example/c/f?sv=2020&sig={SECRET}&se=1",
        f"access key: {SECRET}",
        f"MYSQL_PWD={SECRET}",
        f"curl -u bob:{SECRET} https://host.example/x",
        f'connection_string="Server=a;{SECRET}"',
    ],
)
def test_credentials_are_masked(text: str) -> None:
    assert SECRET not in redact(text)
    assert "***" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "key AKIA" + "ABCDEFGHIJKLMNOP" + " used",
        "ghp_" + "a1B2" * 9,
        "hf_" + "abcDEF" * 5,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
    ],
)
def test_keys_that_tell_themselves_are_masked(text: str) -> None:
    assert "***" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=12345, name=python3, Ch 00000010",
        "_slurm_rpc_submit_batch_job: JobId=9001 InitPrio=4294901759 usec=550",
        "sudo: ops : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/dmesg",
        "12 tokens per second at step 5",
        "2026-03-01T12:00:00Z http://10.0.0.1:9090/metrics",
    ],
)
def test_what_is_no_credential_stays(text: str) -> None:
    assert redact(text) == text


def test_rows_are_masked_in_their_free_text() -> None:
    row = Session(name=f"run TOKEN={SECRET}", work_dir=f"/x?sig={SECRET}", job_id="7")
    redact_row(row)
    assert SECRET not in repr(row)
    assert row.job_id == "7"


@given(st.text())
def test_any_text_passes(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("unit", ["a", "-", "key", "key=", "://", "token ", "bearer ", "'", "eyJ", "--key "])
def test_time_is_linear(unit: str) -> None:
    def of(length: int) -> float:
        text = unit * (length // len(unit)) + " secret"
        return seconds(lambda: redact(text))

    assert of(400_000) < 50 * max(of(40_000), 0.002)
