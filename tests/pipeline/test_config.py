"""The configuration: what is read from it, which files its globs mean, and what is said about each mistake."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from aftershock.pipeline.config import (
    ClusterConfig,
    Config,
    ConfigError,
    RetryRules,
    SourceConfig,
    load_config,
)
from aftershock.pipeline.metrics.storage_rules import StorageConfig
from aftershock.pipeline.toml_lines import key_lines

WHOLE = """\
# facts
[cluster]
name = "solar"
timezone = "Asia/Seoul"
year = 2026
hosts = "gpu[001-003],login1"
train_hosts = "GPU[001-002]"
spare_hosts = "gpu003"
gpus_per_host = 8
scrape_interval_s = 30

[hosts.aliases]
"10.20.0.71" = "gpu071"
Node-A = "GPU001"

[storage]
read_bytes_per_s = 700e9
write_bytes_per_s = 250_000_000_000

[chains]
max_gap_s = 0

[[sources]]
glob = "logs/kernel/*"
format = "kernel"
timezone = "+09:00"
year = 2025
host_from = "file_name"

[[sources]]
glob = "logs/**/*.out"
job_id_from = 'job-(?P<job_id>\\d+)'

[prometheus]
url = "http://127.0.0.1:9090"
"""


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "aftershock.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def complaint(written, text: str) -> str:
    """What is said about a text, without the folder of the file."""
    path = written(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(path, "aftershock.toml")


def test_whole_file(written, tmp_path):
    config = load_config(written(WHOLE))
    assert config.cluster == ClusterConfig(
        name="solar",
        timezone="Asia/Seoul",
        year=2026,
        hosts=("gpu001", "gpu002", "gpu003", "login1"),
        train_hosts=("gpu001", "gpu002"),
        spare_hosts=("gpu003",),
        gpus_per_host=8,
        scrape_interval_s=30.0,
    )
    assert config.aliases == {"10.20.0.71": "gpu071", "node-a": "gpu001"}
    assert config.storage == StorageConfig(read_bytes_per_s=700e9, write_bytes_per_s=250e9)
    assert config.chains == RetryRules(success_min_runtime_s=86400.0, max_gap_s=0.0)
    assert [source.glob for source in config.sources] == ["logs/kernel/*", "logs/**/*.out"]
    assert config.sources[0].timezone == "+09:00"
    assert config.prometheus.url == "http://127.0.0.1:9090"
    assert config.folder == str(tmp_path)


def test_empty_file_is_the_default(written):
    config = load_config(written(""))
    assert (config.cluster, config.sources, config.chains) == (ClusterConfig(), (), RetryRules(86400.0, 7200.0))
    assert Config().source_for("anything") is None


def test_byte_order_mark_and_line_ends_of_windows(written):
    assert load_config(written("\ufeff[cluster]\r\nname = 'solar'\r\n")).cluster.name == "solar"
    assert complaint(written, "[cluster]\r\n\r\nnam = 'solar'\r\n").startswith("aftershock.toml:3: ")


def test_workers_get_it_whole(written):
    config = load_config(written(WHOLE))
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[cluster]\n\ntimezon = "UTC"', '3: unknown key "timezon" in [cluster]; did you mean "timezone"?'),
        ('[cluster]\nName = "x"', '2: unknown key "Name" in [cluster]; did you mean "name"?'),
        ('[clusters]\nname = "x"', '1: unknown key "clusters"; did you mean "cluster"?'),
        (
            "[x]",
            '1: unknown key "x"; known are cluster, hosts, storage, chains, exclusions, training, windows, alarms, sources, prometheus',
        ),
        ('name = "x"', '1: unknown key "name"'),
        ("[training]\nspike_usual = 5", "2: spike_usual in [training] must be at least 10, not 5"),
        ("[training]\nslow_share = 1.5", "2: slow_share in [training] must be a share, at most 1, not 1.5"),
        ("[training]\nslow_raise = 0.1", '2: unknown key "slow_raise" in [training]; did you mean "slow_rise"?'),
        ('[[sources]]\nglob = "a"\n[[sources]]\nglob = "b"\nzone = "UTC"', '5: unknown key "zone" in [[sources]]; '),
        ('cluster = { name = "x", colour = 1 }', '1: unknown key "colour" in [cluster]'),
        ('cluster.year = "2026"', "1: year in [cluster] must be a whole number, not text"),
        ("[hosts]\nalias.a = 'b'", '2: unknown key "alias" in [hosts]; did you mean "aliases"?'),
        ("[cluster]\nyear = 2026.0", "2: year in [cluster] must be a whole number, not a number with a fraction"),
        ("[cluster]\nyear = true", "2: year in [cluster] must be a whole number, not true or false"),
        ("[cluster]\nyear = 26", "2: year in [cluster] must be a year such as 2026, not 26"),
        ("[cluster]\nname = 5", "2: name in [cluster] must be text in quotes, not a whole number"),
        ("[cluster]\nname = ''", "2: name in [cluster] must not be empty"),
        ("[cluster]\nname = 2026-01-01", "2: name in [cluster] must be text in quotes, not a date or time"),
        ("[cluster]\ngpus_per_host = 0", "2: gpus_per_host in [cluster] must be more than 0, not 0"),
        ("[cluster]\nscrape_interval_s = nan", "2: scrape_interval_s in [cluster] must be more than 0, not nan"),
        ("[cluster]\nscrape_interval_s = '30s'", "2: scrape_interval_s in [cluster] must be a number, not text"),
        ("[chains]\nmax_gap_s = -1", "2: max_gap_s in [chains] must be more than 0, not -1"),
        ("[chains]\nmax_gap_s = false", "2: max_gap_s in [chains] must be a number, not true or false"),
        (
            '[cluster]\ntimezone = "Asia/Soul"',
            "2: timezone in [cluster] is an unknown time zone 'Asia/Soul': give an IANA name such as Asia/Seoul, or +09:00",
        ),
        ('[[sources]]\nglob = "a"\ntimezone = "../UTC"', "3: timezone in [[sources]] is an unknown time zone"),
        ('[cluster]\nhosts = "gpu[001-"', "2: hosts in [cluster] is no list of hosts: "),
        ('[cluster]\nhosts = ["gpu001"]', "2: hosts in [cluster] must be text in quotes, not a list"),
        (
            '[[sources]]\nglob = "a"\nformat = "kernal"',
            '3: format in [[sources]] is an unknown format "kernal"; did you mean "kernel"?',
        ),
        (
            '[[sources]]\nglob = "a"\nformat = "zzzz"',
            '3: format in [[sources]] is an unknown format "zzzz"; known are ',
        ),
        (
            '[[sources]]\nglob = "a"\nhost_from = "(?P<host>"',
            "3: host_from in [[sources]] is a bad regular expression: ",
        ),
        (
            '[[sources]]\nglob = "a"\nhost_from = "filename"',
            '3: host_from in [[sources]] must be "file_name", "parent_folder" or a regular expression with a group (?P<host>...)',
        ),
        ('[[sources]]\nglob = "a"\njob_id_from = "(?P<host>x)"', "3: job_id_from in [[sources]] must be "),
        ('\n[[sources]]\nformat = "kernel"', "2: [[sources]] without a glob: which files is it about?"),
        ('[sources]\nglob = "a"', "1: sources must be tables: write [[sources]] above each"),
        ("sources = [1]", "1: sources must be tables"),
        ("cluster = 1", "1: cluster must be a table: write [cluster] above its keys"),
        ("hosts = 'gpu001'", "1: hosts must be a table: the roster is `hosts` in [cluster]"),
        ("[hosts]\naliases = 1", "2: aliases in [hosts] must be a table of names"),
        ("[hosts.aliases]\ngpu1.mgmt = 'a'", '2: "gpu1" in [hosts.aliases]: a name with dots must stand in quotes'),
        ("[hosts.aliases]\na = 1", '2: "a" in [hosts.aliases] must be the name of a host'),
        ("[hosts.aliases]\na = 'x'\nA = 'y'", '3: "A" in [hosts.aliases] is already "x"'),
        ("[prometheus]\nurl = 'localhost:9090'", "2: url in [prometheus] must begin with http:// or https://"),
        ("[cluster]\nname = 'x\n", "2: this is no TOML: "),
        ("[cluster]\n\nname = ", "3: this is no TOML: "),
        ("[cluster]\nname = 'x'\nname = 'y'", "3: this is no TOML: "),
        ('[cluster]\n"na\\nme" = 1', '2: unknown key "na me" in [cluster]'),
    ],
)
def test_mistakes_name_the_line(written, text, said):
    assert complaint(written, text).startswith(f"aftershock.toml:{said}")


def test_files_that_cannot_be_read(tmp_path):
    missing = str(tmp_path / "no.toml")
    with pytest.raises(ConfigError, match=r"no\.toml: No such file"):
        load_config(missing)
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"[cluster]\nname = '\xe9'\n")
    with pytest.raises(ConfigError, match=r"latin\.toml:2: the file is not UTF-8 text"):
        load_config(str(latin))


def source(glob: str, folder: Path, started_in: Path | None = None) -> Config:
    return Config(sources=(SourceConfig(glob=glob),), folder=str(folder), started_in=str(started_in or folder))


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("logs/kernel/*", "logs/kernel/gpu001.log", True),
        ("logs/kernel/*", "./logs//kernel/gpu001.log", True),
        ("logs/kernel/*", "logs/kernel/old/gpu001.log", False),
        ("logs/kernel/*", "other/logs/kernel/gpu001.log", False),
        ("**/gpu*.log", "gpu001.log", True),
        ("**/gpu*.log", "a/b/gpu001.log", True),
        ("logs/**/*.log", "logs/x.log", True),
        ("logs/**/*.log", "logs/a/b/x.log", True),
        ("logs/**/*.log", "logsx.log", False),
        ("logs/**", "logs/a/b", True),
        ("logs/**", "log/a", False),
        ("gpu00[1-3].log", "gpu002.log", True),
        ("gpu00[!1-3].log", "gpu002.log", False),
        ("a[!b]c", "a/c", False),
        ("gpu[.log", "gpu[.log", True),
        ("gpu?.log", "gpu1.log", True),
        ("a?b", "a/b", False),
        ("a.log", "aXlog", False),
        ("./a.log", "a.log", True),
        ("../up/*.log", "../up/a.log", True),
    ],
)
def test_globs(tmp_path, glob, path, matches):
    config = source(glob, tmp_path / "here")
    assert (config.source_for(path) is not None) is matches
    assert (config.source_for(str(tmp_path / "here" / path)) is not None) is matches


def test_paths_start_where_the_run_started(tmp_path):
    config = source("logs/*", tmp_path / "conf", started_in=tmp_path)
    assert config.source_for("conf/logs/a")
    assert not config.source_for("logs/a")


def test_folder_whose_name_looks_like_a_glob(tmp_path):
    assert source("a*", tmp_path / "x[1]").source_for(str(tmp_path / "x[1]" / "abc"))


def test_absolute_globs_and_links(tmp_path):
    (tmp_path / "true").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "true")
    (tmp_path / "true" / "a.log").touch()
    assert source(f"{tmp_path}/*/a.log", tmp_path / "else").source_for(str(tmp_path / "true" / "a.log"))
    assert source("*.log", tmp_path / "true").source_for(str(tmp_path / "link" / "a.log"))


def test_object_stores_match_as_text(tmp_path):
    config = source("s3://logs/**/gpu*.gz", tmp_path)
    assert config.source_for("s3://logs/2026/12/gpu001.gz")
    assert config.source_for("s3://logs/gpu001.gz")
    assert not config.source_for("gs://logs/gpu001.gz")
    assert not source("**/*.gz", tmp_path).source_for("s3://logs/gpu001.gz")


def test_first_match_wins(tmp_path):
    config = Config(sources=(SourceConfig("a*", year=1999), SourceConfig("**", year=2026)), folder=str(tmp_path))
    assert [config.source_for(str(tmp_path / name)).year for name in ("ab", "b")] == [1999, 2026]


@pytest.mark.parametrize(
    ("how", "path", "host"),
    [
        ("file_name", "logs/gpu017.log.1.gz", "gpu017"),
        ("file_name", "s3://logs/gpu017.log", "gpu017"),
        ("file_name", "logs/.hidden", None),
        ("parent_folder", "logs/gpu017/kern.log", "gpu017"),
        ("parent_folder", "s3://logs/gpu017/kern.log", "gpu017"),
        (r"host=(?P<host>\w+)", "logs/host=gpu017/x", "gpu017"),
        (r"host=(?P<host>\w+)", "logs/gpu017/x", None),
        (None, "logs/gpu017.log", None),
    ],
)
def test_host_of(how, path, host):
    assert SourceConfig("*", host_from=how).host_of(path) == host


def test_parent_folder_of_a_bare_name(tmp_path, monkeypatch):
    (tmp_path / "gpu017").mkdir()
    monkeypatch.chdir(tmp_path / "gpu017")
    assert SourceConfig("*", host_from="parent_folder").host_of("kern.log") == "gpu017"


def test_job_id_of():
    assert SourceConfig("*", job_id_from="file_name").job_id_of("runs/4001.1.log") == "4001"
    assert SourceConfig("*", job_id_from=r"slurm-(?P<job_id>\d+)").job_id_of("runs/slurm-4001.out") == "4001"


def test_lines_of_keys():
    text = '''\
"a.b" = """
[not.a.table]
x = 1 """   # comment with [brackets]
c.d = [ # begin
  "]", 'y',
  { e = 1 },
]
[t]
f = { g = { h = "}" }, i = [1, 2] }
[[s]]
[s.u]
v = 1
[[s]]
[[s.w]]
x = 1
[[s.w]]
x = \'\'\'
[s]\'\'\'
y = 1979-05-27T07:32:00Z
'''
    lines = key_lines(text)
    assert lines["a.b",] == 1
    assert ("not",) not in lines
    assert lines["c",] == lines["c", "d"] == 4
    assert lines["c", "d", 2, "e"] == 6
    assert lines["t",] == 8
    assert lines["t", "f", "g", "h"] == lines["t", "f", "i", 1] == 9
    assert lines["s", 0] == 10
    assert lines["s", 0, "u", "v"] == 12
    assert lines["s", 1, "w", 0, "x"] == 15
    assert lines["s", 1, "w", 1, "y"] == 19


def test_configuration_of_the_example():
    path = Path(__file__).parents[2] / "examples" / "demo" / "aftershock.toml"
    config = load_config(str(path))
    assert len(config.cluster.hosts) == 8
    log = str(path.parent / "logs" / "kernel" / "gpu004.log")
    source = config.source_for(log)
    assert source is not None
    assert source.host_of(log) == "gpu004"
    assert config.source_for(str(path.parent / "logs" / "slurm" / "slurmctld.log")) is None
