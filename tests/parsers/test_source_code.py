"""Source code and documentation quote records; nothing that stands in them happened."""

from __future__ import annotations

import pytest

from aftershock.parsers.detect import detect
from aftershock.parsers.formats import Head

RECORD = b"[Tue Mar  3 07:15:42 2026] NVRM: Xid (PCI:0000:9d:00): 79, pid=7, name=a.out, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    "name", ["reader_test.go", "Xid.CPP", "check.py", "README.md", "faq.html", "faq.shtml", "notes.rst.gz"]
)
def test_names_of_source_code_and_documents_are_refused(name: str) -> None:
    found = detect(Head(name, RECORD))
    assert found.how == "refused"
    assert found.reason is not None
    assert "state the format" in found.reason


@pytest.mark.parametrize("name", ["dmesg", "gpu021.log", "train.py.o4001", "run.md.log", "4001.py-0.out", "md", ".md"])
def test_names_of_logs_are_not(name: str) -> None:
    assert detect(Head(name, RECORD)).how == "lines"


def test_whoever_states_the_format_is_believed() -> None:
    assert detect(Head("dmesg.md", RECORD), "kernel").how == "lines"


@pytest.mark.parametrize("name", ["gpu021.cluster.rs", "gpu021.hpc.cc", "node7.site.md"])
def test_a_log_that_is_named_by_its_host_is_read(name: str) -> None:
    lines = [f"Mar  3 07:15:4{n} gpu021 kernel: usb 1-1: new device number {n}\n".encode() for n in range(5)]
    assert detect(Head(name, b"".join(lines))).how == "lines"
