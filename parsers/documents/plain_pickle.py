"""Pickles that hold nothing but plain values, read without running anything that is in them.

A pickle is a program for a small machine, and may call any function. Here only the instructions that build numbers,
texts, lists, tuples and dicts are followed, one by one, as :mod:`pickletools` cuts them. The first other one refuses
the whole, by its name and by what it asked for. Nothing is imported or called.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from typing import Any, Final

# A flight recorder keeps some thousand entries of some hundred values.
MOST_BYTES: Final = 64 << 20
MOST_STEPS: Final = 8_000_000
MOST_CONTAINERS: Final = 1_000_000
_LONGEST_NUMBER: Final = 4096

_MARK: Final = object()
_PUSHED: Final = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    }
)
_CONSTANTS: Final = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NO_EFFECT: Final = frozenset({"PROTO", "FRAME"})
_KEYS: Final = (str, int, float, bytes, bool, type(None))
_SHOWN: Final = 80


class NotPlain(ValueError):
    """A pickle that is not read; the text says why."""


def plain_value(data: bytes) -> Any:
    """The value of a pickle.

    Raises:
        NotPlain: it is damaged, too large, or holds something that is no plain value.
    """
    if len(data) > MOST_BYTES:
        raise NotPlain(f"a pickle of more than {MOST_BYTES} bytes")
    machine = _Machine()
    try:
        for number, (opcode, argument, at) in enumerate(pickletools.genops(data)):
            if number > MOST_STEPS:
                raise NotPlain(f"a pickle of more than {MOST_STEPS} instructions")
            if opcode.name == "STOP":
                return machine.result()
            machine.step(opcode.name, argument, at or 0)
    except NotPlain:
        raise
    except (ValueError, OverflowError, struct.error, MemoryError, EOFError) as error:
        raise NotPlain(f"damaged pickle: {(str(error).splitlines() or [''])[0][:200]}") from error
    raise NotPlain("damaged pickle: it does not come to its end")


class _Machine:
    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._containers = 0
        self._actions: dict[str, Callable[[Any], None]] = {
            "EMPTY_DICT": lambda _: self._make({}),
            "EMPTY_LIST": lambda _: self._make([]),
            "EMPTY_TUPLE": lambda _: self._make(()),
            "MARK": lambda _: self._stack.append(_MARK),
            "LIST": lambda _: self._make(self._to_mark()),
            "TUPLE": lambda _: self._make(tuple(self._to_mark())),
            "DICT": lambda _: self._make(self._pairs(self._to_mark())),
            "TUPLE1": lambda _: self._make(tuple(self._take(1))),
            "TUPLE2": lambda _: self._make(tuple(self._take(2))),
            "TUPLE3": lambda _: self._make(tuple(self._take(3))),
            "APPEND": lambda _: self._append(self._take(1)),
            "APPENDS": lambda _: self._append(self._to_mark()),
            "SETITEM": lambda _: self._set(self._take(2)),
            "SETITEMS": lambda _: self._set(self._to_mark()),
            "POP": lambda _: self._drop(),
            "POP_MARK": lambda _: self._drop_mark(),
            "DUP": lambda _: self._stack.append(self._top()),
            "PUT": self._remember,
            "BINPUT": self._remember,
            "LONG_BINPUT": self._remember,
            "MEMOIZE": lambda _: self._remember(len(self._memo)),
            "GET": self._recall,
            "BINGET": self._recall,
            "LONG_BINGET": self._recall,
        }

    def step(self, name: str, argument: Any, at: int) -> None:
        """Follow one instruction."""
        if name in _PUSHED:
            if isinstance(argument, int) and argument.bit_length() > _LONGEST_NUMBER:
                raise NotPlain(f"a number of {argument.bit_length()} bits at byte {at}")
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in self._actions:
            self._actions[name](argument)
        elif name not in _NO_EFFECT:
            asked = f" {str(argument)[:_SHOWN]!r}" if argument is not None else ""
            raise NotPlain(f"a pickle that is more than plain values: {name}{asked} at byte {at}")

    def result(self) -> Any:
        """What is on the stack at the end."""
        return self._take(1)[0]

    def _make(self, value: Any) -> None:
        self._containers += 1
        if self._containers > MOST_CONTAINERS:
            raise NotPlain(f"a pickle of more than {MOST_CONTAINERS} lists and dicts")
        self._stack.append(value)

    def _top(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise NotPlain("damaged pickle: nothing on its stack")
        return self._stack[-1]

    def _take(self, count: int) -> list[Any]:
        taken = self._stack[-count:]
        if len(taken) < count or _MARK in taken:
            raise NotPlain("damaged pickle: nothing on its stack")
        del self._stack[-count:]
        return taken

    def _to_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while at >= 0 and self._stack[at] is not _MARK:
            at -= 1
        if at < 0:
            raise NotPlain("damaged pickle: no mark on its stack")
        taken = self._stack[at + 1 :]
        del self._stack[at:]
        return taken

    def _drop(self) -> None:
        if not self._stack:
            raise NotPlain("damaged pickle: nothing on its stack")
        self._stack.pop()

    def _drop_mark(self) -> None:
        self._to_mark()

    def _append(self, values: list[Any]) -> None:
        holder = self._top()
        if not isinstance(holder, list):
            raise NotPlain("damaged pickle: it appends to what is no list")
        holder.extend(values)

    def _set(self, values: list[Any]) -> None:
        holder = self._top()
        if not isinstance(holder, dict):
            raise NotPlain("damaged pickle: it sets an item of what is no dict")
        holder.update(self._pairs(values))

    def _pairs(self, values: list[Any]) -> dict[Any, Any]:
        if len(values) % 2:
            raise NotPlain("damaged pickle: a key without a value")
        keys = values[::2]
        if not all(isinstance(key, _KEYS) for key in keys):
            # A key of tuples in tuples takes time without end to be hashed.
            raise NotPlain("a pickle with keys that are neither texts nor numbers")
        return dict(zip(keys, values[1::2], strict=True))

    def _remember(self, number: Any) -> None:
        if not isinstance(number, int):
            raise NotPlain("damaged pickle: no number of its memo")
        self._memo[number] = self._top()

    def _recall(self, number: Any) -> None:
        if number not in self._memo:
            raise NotPlain("damaged pickle: nothing of that number in its memo")
        self._stack.append(self._memo[number])
