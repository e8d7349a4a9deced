"""Whose series it is, however its exporter spells that."""

from __future__ import annotations

import pytest

from aftershock.parsers.hosts import HostNames
from aftershock.pipeline.metrics.gathered import known_of
from aftershock.pipeline.metrics.identity import Subjects, named_by, pci_of
from aftershock.schemas.topology import Gpu

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002"
AMD = "72ff740f-0000-1000-804c-3b58bf67050e"
SUBJECTS = Subjects(
    HostNames({"10.0.0.3": "gpu003"}),
    ["gpu001", "gpu002", "gpu003"],
    [
        Gpu(host="gpu001", gpu_index=0, pci="0000:1b:00.0", gpu_uuid=A),
        Gpu(host="gpu002", gpu_index=3, pci="0000:43:00.0", gpu_uuid=B, valid_to=1000),
        Gpu(host="gpu002", gpu_index=3, pci="0000:43:00.0", gpu_uuid=A.replace("a", "c"), valid_from=1000),
        Gpu(host="gpu003", gpu_index=7, pci="0000:43:00.0", gpu_uuid=B, valid_from=2000),
    ],
)


@pytest.mark.parametrize(
    ("labels", "host", "index", "how"),
    [
        ({"Hostname": "gpu001", "gpu": "4"}, "gpu001", 4, "index"),
        ({"hostname": "GPU001.example.net", "instance": "10.0.0.3:9400"}, "gpu001", None, None),
        ({"instance": "gpu002:9100"}, "gpu002", None, None),
        ({"instance": "10.0.0.3:9100"}, "gpu003", None, None),
        # The exporter's pod or machine is not the host, if another label names one.
        ({"Hostname": "dcgm-exporter-x7k2p", "instance": "10.0.0.3:9400"}, "gpu003", None, None),
        ({"Hostname": "nvidia-dcgm-exporter-x7k2p"}, None, None, None),
        ({"Hostname": "localhost", "instance": "gpu001:9400"}, "gpu001", None, None),
        ({"hostname": "monitor", "node": "gpu002"}, "gpu002", None, None),
        ({"exported_instance": "gpu002", "instance": "gateway:9091"}, "gpu002", None, None),
        # The model stands where others write the index.
        ({"gpu": "NVIDIA H100", "gpu_index": "2", "instance": "gpu001"}, "gpu001", 2, "index"),
        ({"gpu": "1²", "instance": "gpu001"}, "gpu001", None, None),
        ({"instance": "other9:9100"}, "other9", None, None),
        ({"job": "prometheus"}, None, None, None),
    ],
)
def test_host_and_index(labels: dict[str, str], host: str | None, index: int | None, how: str | None) -> None:
    subject = SUBJECTS.of(labels)
    assert (subject.host, subject.gpu_index, subject.how) == (host, index, how)
    assert subject.matched == (host in {"gpu001", "gpu002", "gpu003"})


@pytest.mark.parametrize("label", ["UUID", "gpu_uuid", "uuid"])
def test_a_uuid_goes_before_a_host_that_nobody_knows(label: str) -> None:
    subject = SUBJECTS.of({label: A, "Hostname": "some-pod"})
    assert (subject.host, subject.gpu_index, subject.pci, subject.how) == ("gpu001", 0, "0000:1b:00.0", "uuid")


@pytest.mark.parametrize(
    ("labels", "uuid"),
    [
        # Exporters around nvidia-smi leave out the first word.
        ({"__name__": "nvidia_smi_temperature_gpu", "uuid": A[4:]}, A),
        ({"__name__": "nvidia_smi_temperature_gpu", "uuid": "0" + A[5:].upper()}, "GPU-0" + A[5:]),
        ({"__name__": "DCGM_FI_DEV_GPU_TEMP", "UUID": "GPU-" + A[4:].upper()}, A),
        # Relabelled together with the model, or with the number of a slice.
        ({"gpuuuid": f"NVIDIA H100/{A}"}, A),
        ({"gpuuuid": f"{A}/7"}, A),
        # Of other makers, as they print it.
        ({"__name__": "gpu_package_power", "gpu_uuid": AMD}, AMD),
        # The id of a disk, of a machine, a model.
        ({"__name__": "node_filesystem_info", "uuid": "683c6e09-3969-31a5-b7ca-cc88252b7fce"}, None),
        ({"uuid": "GeForce GTX 1070"}, None),
    ],
)
def test_a_uuid_in_other_forms(labels: dict[str, str], uuid: str | None) -> None:
    assert SUBJECTS.of(labels).gpu_uuid == uuid
    assert known_of(tuple(sorted(labels.items())), SUBJECTS).subject.gpu_uuid == uuid


@pytest.mark.parametrize(
    ("instance", "host"),
    [("[2001:db8::17]:9100", "2001:db8::17"), ("2001:db8::17", "2001:db8::17"), ("10.20.0.17:9100", "10.20.0.17")],
)
def test_a_port_is_no_part_of_an_address(instance: str, host: str) -> None:
    assert SUBJECTS.of({"instance": instance}).host == host


def test_an_address_goes_before_an_index() -> None:
    subject = SUBJECTS.of({"Hostname": "gpu001", "pci_bus_id": "00000000:1B:00.0", "gpu": "5"})
    assert (subject.gpu_uuid, subject.gpu_index, subject.how) == (A, 5, "pci")


def test_a_gpu_that_moved_is_where_it_was_at_the_time() -> None:
    assert SUBJECTS.of({"UUID": B}, 500).host == "gpu002"
    assert SUBJECTS.of({"UUID": B}, 2500).host == "gpu003"
    # The label says it without a time.
    assert SUBJECTS.of({"UUID": B, "Hostname": "gpu003"}, 500).host == "gpu003"


def test_a_place_in_which_a_gpu_was_swapped_has_one_at_each_time() -> None:
    subject = SUBJECTS.of({"Hostname": "gpu002", "gpu": "3"})
    assert subject.gpu_uuid is None
    assert [subject.uuid_at(time) for time in (0, 999, 1000, 5000)] == [B, B, *[A.replace("a", "c")] * 2]


def test_series_that_name_both_tell_the_host_of_an_instance() -> None:
    told = named_by({"__name__": "node_uname_info", "instance": "10.9.9.9:9100", "nodename": "gpu002"})
    assert told == ("10.9.9.9", "gpu002")
    assert named_by({"__name__": "up", "instance": "10.9.9.9:9100", "nodename": "gpu002"}) is None
    subjects = Subjects(HostNames(), ["gpu002"], [], dict([told]))
    assert subjects.of({"instance": "10.9.9.9:9100"}).host == "gpu002"
    assert subjects.of({"instance": "10.9.9.9:9400"}).host == "gpu002"


@pytest.mark.parametrize(
    ("printed", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000:1b:00.0", "0000:1b:00.0"),
        ("1b:00.0", "0000:1b:00.0"),
        ("0000:1b:00", "0000:1b:00.0"),
        ("00010000:1B:00.0", "00010000:1b:00.0"),
        ("3", None),
        ("GPU-1b:00.0", None),
    ],
)
def test_pci_addresses(printed: str, address: str | None) -> None:
    assert pci_of(printed) == address
