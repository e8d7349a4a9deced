"""The steps of a source in the order of its lines, from where they are: in files of this run, or in batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aftershock.parsers.blocks import Aside
from aftershock.parsers.formats import Found
from aftershock.parsers.training.step_columns import InMemory, Piece, plain
from aftershock.parsers.transit import found_of
from aftershock.pipeline.aside import together


@dataclass(frozen=True)
class FilePiece:
    """Steps that were set aside, as settling takes them."""

    aside: Aside

    @property
    def begin(self) -> int:
        """Offset of the first of them."""
        return self.aside.begin

    def read(self) -> pa.RecordBatch:
        """All of them; their memory is the file itself."""
        return pa.ipc.open_file(pa.memory_map(self.aside.path)).get_batch(0)


def pieces_of(aside: Sequence[Aside], batches: Sequence[pa.RecordBatch]) -> list[Piece]:
    """The steps of a source in order: those that were set aside, and those of other blocks, as they travelled."""
    files: list[Piece] = [FilePiece(each) for each in sorted(aside, key=lambda each: each.begin)]
    if not batches:
        return files
    whole = together(batches)
    offsets = whole.column("@offset").to_numpy()
    # Blocks do not overlap: between the first steps of two files stand those of whole blocks.
    cuts = [0, *np.searchsorted(offsets, [piece.begin for piece in files]).tolist(), whole.num_rows]
    pieces: list[Piece] = []
    for number, (begin, end) in enumerate(pairwise(cuts)):
        if number:
            pieces.append(files[number - 1])
        if end > begin:
            pieces.append(InMemory(whole.slice(begin, end - begin)))
    return pieces


# What a clock may be that is resolved for many steps at once, and what those have nothing of.
_CLOCKS: Final = pa.array(["local", "epoch", "zoned", "none"])
_NOTHING: Final = ("@boot", "@epoch", "@last_wall", "@last_boot", "@until")


def are_usual(batches: Iterable[pa.RecordBatch], format_name: str) -> bool:
    """Whether steps that travelled are of one format, and such as can be settled as columns."""
    return all(_is_usual(batch, format_name) for batch in batches)


def _is_usual(batch: pa.RecordBatch, format_name: str) -> bool:
    there = set(batch.schema.names)
    if any(name in there and batch.column(name).null_count < batch.num_rows for name in _NOTHING):
        return False
    if "@folded" in there and pc.any(batch.column("@folded")).as_py():
        return False
    kinds = pc.is_in(batch.column("@kind"), value_set=_CLOCKS)
    return bool(pc.all(kinds).as_py() and pc.all(pc.equal(batch.column("@format"), format_name)).as_py())


def rows_of_pieces(pieces: Sequence[Piece]) -> list[Found]:
    """All steps as rows."""
    return [found for piece in pieces for found in found_of(plain(piece.read()))]
