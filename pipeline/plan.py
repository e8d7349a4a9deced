"""Planning: which files are read, as what, and in which pieces. Descriptors only; no record is read here."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from aftershock.parsers.column_map import ColumnMap
from aftershock.parsers.detect import rebuild
from aftershock.parsers.prometheus.folders import HEAD_REASON, folder_format, is_head
from aftershock.parsers.redact import redact
from aftershock.parsers.source import Opened, Opener, SourceFile, look, open_local
from aftershock.pipeline.config import Config, SourceConfig
from aftershock.pipeline.options import shown

# Large enough that what a chunk costs besides scanning is lost in it, small enough that a few are in memory at once.
CHUNK_BYTES: Final = 16 << 20

# Names of files that are compressed, and what a byte of them usually holds: memory goes by the text.
_PACKED: Final = (".gz", ".zst", ".bz2", ".xz")
_TEXT_IN_PACKED: Final = 16


class MissingInput(Exception):
    """An input path that does not exist."""


@dataclass
class Inputs:
    """What the given paths stand for. A file with ``refused`` is not opened, and stands in ``sources`` all the same."""

    files: list[SourceFile] = field(default_factory=list)

    def skip(self, path: str, reason: str) -> None:
        """Note something that is not read."""
        self.files.append(SourceFile(path, shown(path), refused=reason))

    @property
    def bytes(self) -> int:
        """Size of the text in all files, as far as it can be known before they are opened."""
        return sum((file.size or 0) * (_TEXT_IN_PACKED if file.path.endswith(_PACKED) else 1) for file in self.files)


class Chunk(NamedTuple):
    """A piece of a source: the lines that start in [begin, stop), or all of it where it cannot be split (stop -1).

    The first chunk of a source also tells about it: why it is not read at all (``refused``), or how (``note``).
    """

    path: str
    source: str
    size: int | None
    compression: str | None
    how: str
    format: str | None
    forced: bool
    begin: int
    stop: int
    refused: str | None = None
    column_map: ColumnMap | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is a source that cannot be split."""
        return self.stop < 0

    @property
    def note(self) -> str | None:
        """What should be known about the way it is read."""
        return f"{self.compression}, read as one stream" if self.compression else None

    def opened(self) -> Opened:
        """The source as it was recognised when the plan was made."""
        forced = self.format if self.forced else None
        detected = rebuild(self.how, self.format, forced=self.forced).mapped(self.column_map).of_file(self.source)
        file = SourceFile(self.path, self.source, self.size, forced, column_map=self.column_map)
        return Opened(file, self.compression, detected)


def expand(paths: Sequence[str], config: Config, leave_out: Iterable[str] = ()) -> Inputs:
    """Files behind paths, folders, globs and object-store addresses, in a stable order, each file once.

    ``leave_out``: paths that are no input (the output folder, the configuration).

    Raises:
        MissingInput: a path that does not exist, or a glob that nothing matches.
    """
    inputs = Inputs()
    left_out = {os.path.realpath(path) for path in leave_out}
    seen: dict[tuple[int, int], str] = {}
    for given in paths:
        path = given.removeprefix("file://")
        if "://" in path:
            _expand_remote(path, config, inputs)
            continue
        matches = [path] if os.path.lexists(path) else sorted(glob.glob(path, recursive=True))
        if not matches:
            raise MissingInput(f"{shown(path)}: no such file or folder")
        for match in matches:
            for found in _walk(match, left_out, inputs, set()):
                _take(found, config, inputs, seen)
    return inputs


def _walk(
    path: str, left_out: set[str], inputs: Inputs, above: set[tuple[int, int]]
) -> Iterator[tuple[str, os.stat_result]]:
    try:
        status = os.stat(path)
    except OSError as error:
        reason = "link that leads nowhere or in a circle" if os.path.islink(path) else error.strerror or str(error)
        inputs.skip(path, f"cannot be read: {reason}")
        return
    if os.path.realpath(path) in left_out:
        return
    if not stat.S_ISDIR(status.st_mode):
        yield path, status
        return
    identity = (status.st_dev, status.st_ino)
    if identity in above:
        inputs.skip(path, "link loop: the folder contains itself")
        return
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        inputs.skip(path, f"cannot be read: {error.strerror or error}")
        return
    if not names and not above:
        inputs.skip(path, "an empty folder")
    if is_head(os.path.basename(path), names):
        inputs.skip(path, HEAD_REASON)
        return
    if _folder_format(path, names):
        yield path, status
        return
    for name in names:
        yield from _walk(os.path.join(path, name), left_out, inputs, above | {identity})


def _folder_format(path: str, names: Sequence[str]) -> str | None:
    """The format of a folder that is one input, by the names in it."""
    chunks = os.path.join(path, "chunks")
    try:
        below = os.listdir(chunks) if "chunks" in names and os.path.isdir(chunks) else []
    except OSError:
        below = []
    return folder_format([*names, *(f"chunks/{name}" for name in below)])


def _folder(path: str) -> SourceFile:
    """A folder that is one input: its format, all files in it, and their size."""
    found = [os.path.join(top, name) for top, _, names in os.walk(path) for name in names]
    sizes = {os.path.relpath(name, path): os.path.getsize(name) for name in found if os.path.isfile(name)}
    names = tuple(sorted(sizes))
    return SourceFile(path, shown(path), sum(sizes.values()), folder=folder_format(names), names=names)


_SPECIAL: Final = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _take(found: tuple[str, os.stat_result], config: Config, inputs: Inputs, seen: dict[tuple[int, int], str]) -> None:
    path, status = found
    special = next((name for test, name in _SPECIAL if test(status.st_mode)), None)
    if special:
        inputs.skip(path, f"{special} is not read")
        return
    first = seen.get((status.st_dev, status.st_ino))
    if first is not None:
        if first != path:
            inputs.skip(path, f"the same file as {shown(first)}")
        return
    seen[status.st_dev, status.st_ino] = path
    if stat.S_ISDIR(status.st_mode):
        inputs.files.append(_folder(path))
        return
    rule = config.source_for(path)
    inputs.files.append(_stated(SourceFile(path, shown(path), status.st_size), rule))


def _stated(file: SourceFile, rule: SourceConfig | None) -> SourceFile:
    """The file with what the configuration says about it."""
    return replace(file, format=rule.format, column_map=rule.column_map) if rule else file


def _expand_remote(pattern: str, config: Config, inputs: Inputs) -> None:
    from apache_beam.io.filesystems import FileSystems  # noqa: PLC0415 - only where an address asks for it

    try:
        found = FileSystems.match([pattern])[0].metadata_list
        if not found:
            found = FileSystems.match([pattern.rstrip("/") + "/**"])[0].metadata_list
    except Exception as error:  # every store has errors of its own, and each is the user's address or set-up
        reason = redact(str(error).splitlines()[0]) if str(error) else type(error).__name__
        raise MissingInput(f"{redact(pattern)}: cannot be listed: {reason}") from error
    if not found:
        raise MissingInput(f"{redact(pattern)}: no such object")
    sizes = {metadata.path: metadata.size_in_bytes for metadata in sorted(found, key=lambda m: m.path)}
    folders = _remote_folders(sizes)
    inputs.files += folders
    inside = {f"{folder.path}/{name}" for folder in folders for name in folder.names}
    for path, size in sizes.items():
        if path not in inside:
            inputs.files.append(_stated(SourceFile(path, redact(path), size), config.source_for(path)))


def _remote_folders(sizes: Mapping[str, int]) -> list[SourceFile]:
    """The folders among objects that are one input each."""
    names: dict[str, list[str]] = {}
    for path in sizes:
        folder, _, name = path.rpartition("/")
        if folder.endswith("/chunks"):
            folder, name = folder.removesuffix("/chunks"), f"chunks/{name}"
        names.setdefault(folder, []).append(name)
    found = []
    for folder, own in names.items():
        recognised = folder_format(own)
        if recognised:
            size = sum(sizes[f"{folder}/{name}"] or 0 for name in own)
            found.append(SourceFile(folder, redact(folder), size, folder=recognised, names=tuple(own)))
    return found


def opener_of(path: str) -> Opener:
    """How a path is opened: this machine's files directly, object stores through Beam."""
    if "://" not in path:
        return open_local
    from apache_beam.io.filesystems import CompressionTypes, FileSystems  # noqa: PLC0415

    return lambda address: FileSystems.open(address, compression_type=CompressionTypes.UNCOMPRESSED)


def chunks_of(file: SourceFile, chunk_bytes: int = CHUNK_BYTES) -> list[Chunk]:
    """Look at a file and cut it. There is always a first chunk, which tells about the source."""
    if file.refused:
        return [_refused(file, file.refused)]
    opened = look(file, opener_of(file.path))
    detected = opened.detected
    if detected.how == "refused":
        return [_refused(file, detected.reason or "")]
    forced = file.format is not None
    common = (file.path, file.source, file.size, opened.compression, detected.how, detected.format, forced)
    if not opened.splittable:
        return [Chunk(*common, 0, -1, column_map=file.column_map)]
    size = file.size or 0
    return [Chunk(*common, at, min(at + chunk_bytes, size)) for at in range(0, size, chunk_bytes)]


def _refused(file: SourceFile, reason: str) -> Chunk:
    return Chunk(file.path, file.source, file.size, None, "refused", file.format, False, 0, -1, reason)
