"""Secrets come from files and the environment, and are never said."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from aftershock.pipeline.config import ConfigError, load_config
from aftershock.pipeline.metrics.live_access import Access, BadAccess, access_of
from aftershock.pipeline.metrics.live_rules import PrometheusConfig
from aftershock.pipeline.options import RunOptions, UsageError
from aftershock.pipeline.prepare import prepare

SECRET = "s3cr3t-t0ken"
URL = "https://prometheus.example:9090"


def write(folder: Path, text: str | bytes) -> str:
    (folder / "secret").write_bytes(text if isinstance(text, bytes) else text.encode())
    return "secret"


def test_a_token_of_a_file(tmp_path: Path) -> None:
    config = PrometheusConfig(url=URL, bearer_token_file=write(tmp_path, f"{SECRET}\n"))
    access = access_of(config, str(tmp_path))
    assert access.headers == {"Authorization": f"Bearer {SECRET}"}
    assert SECRET not in repr(access)
    assert access.context is not None
    assert access.context.check_hostname


def test_a_token_of_the_environment() -> None:
    access = access_of(PrometheusConfig(url=URL, bearer_token_env="TOKEN"), ".", {"TOKEN": SECRET})
    assert access.headers == {"Authorization": f"Bearer {SECRET}"}


def test_a_user_and_a_password(tmp_path: Path) -> None:
    config = PrometheusConfig(url=URL, basic_auth_file=write(tmp_path, "reader:pass:word\r\n"))
    kind, _, sent = access_of(config, str(tmp_path)).headers["Authorization"].partition(" ")
    assert (kind, base64.b64decode(sent)) == ("Basic", b"reader:pass:word")


def test_headers_of_a_file(tmp_path: Path) -> None:
    config = PrometheusConfig(url=URL, headers_file=write(tmp_path, "# tenant\nX-Scope-OrgID: solar\n\nX-Key: a b\n"))
    assert access_of(config, str(tmp_path)).headers == {"X-Scope-OrgID": "solar", "X-Key": "a b"}


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("bearer_token_file", "", "must hold one line, and holds 0"),
        ("bearer_token_file", f"{SECRET}\n{SECRET}\n", "must hold one line, and holds 2"),
        ("bearer_token_file", f"Bearer {SECRET}", "the token holds spaces"),
        ("bearer_token_file", b"\xff\xfe" + SECRET.encode(), "is no text"),
        ("bearer_token_file", SECRET * 10_000, "is too large"),
        ("basic_auth_file", SECRET, "must hold user:password"),
        ("headers_file", SECRET, ":1: no header that can be sent"),
        ("headers_file", f"\nX-Key: {SECRET}\x01\n", ":2: no header that can be sent"),
        ("headers_file", f"Content-Length: {SECRET}", ":1: no header that can be sent"),
        ("ca_file", SECRET, "holds no certificates"),
    ],
)
def test_what_is_wrong_with_a_secret_is_said_without_it(tmp_path: Path, key: str, text: str | bytes, said: str) -> None:
    config = PrometheusConfig(url=URL, **{key: write(tmp_path, text)})  # type: ignore[arg-type]
    with pytest.raises(BadAccess) as caught:
        access_of(config, str(tmp_path))
    assert said in str(caught.value)
    assert key in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None or "s3cr3t" not in str(caught.value.__cause__)


def test_a_secret_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadAccess, match=r"bearer_token_file in \[prometheus\].*No such file"):
        access_of(PrometheusConfig(url=URL, bearer_token_file="none"), str(tmp_path))
    with pytest.raises(BadAccess, match="the variable TOKEN is not set"):
        access_of(PrometheusConfig(url=URL, bearer_token_env="TOKEN"), ".", {})
    with pytest.raises(BadAccess, match="keep one of them"):
        access_of(PrometheusConfig(url=URL, bearer_token_env="TOKEN", basic_auth_file="x"), ".", {})


def test_plain_http_needs_no_certificates() -> None:
    assert access_of(PrometheusConfig(url="http://127.0.0.1:9090"), ".") == Access()


def config_of(folder: Path, text: str) -> str:
    path = folder / "aftershock.toml"
    path.write_text(f"[prometheus]\n{text}\n")
    return str(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('url = "ftp://x"', "url in [prometheus] must begin with http:// or https://"),
        (f'url = "http://reader:{SECRET}@x"', "must not hold a user or a password"),
        (f'url = "https://x/?token={SECRET}"', "must end with the path of the server"),
        ('url = "http://x:99999999"', "is no address of a server"),
        ('url = "http://x/api/v1/query"', "must be the address before /api/v1"),
        (f'bearer_token = "{SECRET}"', 'unknown key "bearer_token" in [prometheus]; did you mean "bearer_token_'),
        (f'bearer_token_env = "{SECRET}.x"', "must be the name of a variable"),
        ("metrics = []", "must be a list of metrics in quotes, not empty"),
        ('metrics = "up"', "must be a list of metrics in quotes, not text"),
        ('metrics = ["up{}"]', "holds what is no name of a metric: 'up{}'"),
        ('host_labels = ["a-b"]', "holds what is no name of a label"),
        ('api = "graphql"', 'must be one of auto, remote_read, query, not "graphql"'),
        ("max_samples = 0", "max_samples in [prometheus] must be more than 0"),
        ("retries = -1", "retries in [prometheus] must be more than 0"),
        ("timeout_s = true", "timeout_s in [prometheus] must be a number"),
    ],
)
def test_mistakes_of_the_section(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config_of(tmp_path, text))
    assert f":2: {text.partition(' ')[0]}" in str(caught.value) or ":2: unknown key" in str(caught.value)
    assert said in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_the_section(tmp_path: Path) -> None:
    text = 'url = "https://x/prometheus/"\nmetrics = ["up", "up"]\nretries = 0\npeers = 0\ntimeout_s = 5'
    config = load_config(config_of(tmp_path, text)).prometheus
    assert (config.url, config.metrics, config.retries, config.peers) == ("https://x/prometheus", ("up",), 0, 0)


def test_a_run_does_not_begin_without_its_secret(tmp_path: Path) -> None:
    config = config_of(tmp_path, f'url = "{URL}"\nbearer_token_file = "secret"')
    options = RunOptions(inputs=(str(tmp_path),), out=str(tmp_path / "out"), config=config)
    with pytest.raises(UsageError, match="No such file"):
        prepare(options)
    write(tmp_path, SECRET)
    # Nor is the secret an input, although it lies among them.
    assert [file for file in prepare(options).inputs.files if not file.refused] == []


def test_a_dry_run_needs_a_server(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--dry-run .* give url in \[prometheus\]"):
        prepare(RunOptions(inputs=(str(tmp_path),), out=str(tmp_path / "out"), dry_run=True))
