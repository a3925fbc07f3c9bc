"""Dataclasses to plain JSON values and back, so that what is read from disk has types.

A dataclass is an object in JSON; a tuple or a named tuple is a list. The name of a
field in JSON can be given: `held_out: Annotated[int, JsonName("held out")]`.
"""

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["JsonName", "decode", "encode"]

T = TypeVar("T")
Decoder = Callable[[Any], Any]
LARGEST = 2**63 - 1  # of the integers that are read: matplotlib takes no longer ones


@dataclass(frozen=True)
class JsonName:
    """In the annotation of a field: its name in JSON, e.g. one with a space."""

    name: str


@cache
def _members(kind: Any) -> dict[str, tuple[str, Any]]:
    """The fields of a dataclass by their name in JSON: name and type."""
    hints = get_type_hints(kind, vars(sys.modules[kind.__module__]), include_extras=True)
    found = {}
    for each in fields(kind):
        hint, key = hints[each.name], each.name
        if get_origin(hint) is Annotated:
            key = next((extra.name for extra in hint.__metadata__ if isinstance(extra, JsonName)), key)
            hint = hint.__origin__
        found[key] = each.name, hint
    return found


def encode(value: Any) -> Any:
    """The plain values that JSON holds for a value: dicts for dataclasses, lists for tuples."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, tuple | list):
        return [encode(each) for each in value]
    if isinstance(value, dict):
        return {str(key): encode(each) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {key: encode(getattr(value, name)) for key, (name, _) in _members(type(value)).items()}
    raise TypeError(f"JSON holds no {type(value).__name__}; got {value!r}. Use numbers, strings, tuples, dataclasses.")


def decode(kind: type[T], value: Any) -> T:
    """The value of type `kind` that plain JSON values stand for.

    Raises ValueError if they do not fit. The message names the place, what is expected and what is there.
    """
    try:
        return _decoder(kind)(value)
    except _MisfitError as error:
        raise ValueError(str(error)) from None


class _MisfitError(Exception):
    """A value that does not fit, and its place inside of what is decoded."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason, place)
        self.reason, self.place = reason, place

    def __str__(self) -> str:
        return f"{self.place.lstrip('.') or 'it'} {self.reason}"

    def within(self, place: str) -> "_MisfitError":
        """The same, seen from one level further out."""
        return _MisfitError(self.reason, place + self.place)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _misfit(expected: str, value: Any) -> _MisfitError:
    return _MisfitError(f"must be {expected}; got {_shown(value)}")


@cache
def _decoder(kind: Any) -> Decoder:
    """The function that decodes values of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if kind in _PLAIN:
        return _plain(kind)
    if origin in (Union, UnionType):
        return _optional(kind, arguments)
    if origin is tuple and arguments[1:] == (...,):
        return _sequence(_decoder(arguments[0]))
    if origin is tuple:
        return _record(tuple, [f"[{k}]" for k in range(len(arguments))], list(map(_decoder, arguments)))
    if origin is dict and arguments[0] is str:
        return _mapping(_decoder(arguments[1]))
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        names: tuple[str, ...] = kind._fields  # pyright: ignore[reportAttributeAccessIssue]
        return _record(
            lambda values: kind(*values), [f".{name}" for name in names], [_decoder(hints[name]) for name in names]
        )
    if is_dataclass(kind):
        return _dataclass(kind)
    raise TypeError(f"JSON cannot be turned into {kind!r}.")


_PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "an integer"),
    float: ((float, int), "a finite number"),
    str: ((str,), "a string"),
}


def _plain(kind: type) -> Decoder:
    accepted, words = _PLAIN[kind]

    def decoder(value: Any) -> Any:
        fits = type(value) in accepted  # a bool is an int to isinstance
        if not fits or (kind is int and abs(value) > LARGEST) or (kind is float and not _finite(value)):
            raise _misfit(words, value)
        return kind(value)

    return decoder


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a long integer
        return False


def _optional(kind: Any, arguments: tuple[Any, ...]) -> Decoder:
    if len(arguments) != 2 or NoneType not in arguments:
        raise TypeError(f"JSON cannot be turned into {kind!r}: only a union with None is understood.")
    (other,) = (argument for argument in arguments if argument is not NoneType)
    decoder = _decoder(other)
    return lambda value: None if value is None else decoder(value)


def _each(decoders: Iterable[Decoder], values: Iterable[Any], place: Callable[[int], str]) -> list[Any]:
    """Decode values one by one; an error names the place of the value that does not fit, given its number."""
    decoded: list[Any] = []
    try:
        for decoder, value in zip(decoders, values, strict=False):
            decoded.append(decoder(value))
    except _MisfitError as error:
        raise error.within(place(len(decoded))) from None
    return decoded


def _sequence(decoder: Decoder) -> Decoder:
    def decode_all(value: Any) -> Any:
        if type(value) is not list:
            raise _misfit("a list", value)
        return tuple(_each(repeat(decoder), value, "[{}]".format))

    return decode_all


def _record(make: Callable[[list[Any]], Any], places: list[str], decoders: list[Decoder]) -> Decoder:
    """Of a tuple that has a fixed length."""

    def decode_all(value: Any) -> Any:
        if type(value) is not list or len(value) != len(decoders):
            raise _misfit(f"a list of {len(decoders)}", value)
        return make(_each(decoders, value, places.__getitem__))

    return decode_all


def _mapping(decoder: Decoder) -> Decoder:
    def decode_all(value: Any) -> Any:
        if type(value) is not dict:
            raise _misfit("an object", value)
        keys = list(value)
        return dict(zip(keys, _each(repeat(decoder), value.values(), lambda k: f"[{keys[k]!r}]"), strict=True))

    return decode_all


def _dataclass(kind: Any) -> Decoder:
    members = {key: (name, _decoder(hint)) for key, (name, hint) in _members(kind).items()}
    defaults = {of.name for of in fields(kind) if (of.default, of.default_factory) != (MISSING, MISSING)}
    needed = {key for key, (name, _) in members.items() if name not in defaults}

    def decode_all(value: Any) -> Any:
        if type(value) is not dict:
            raise _misfit("an object", value)
        if unknown := sorted(value.keys() - members.keys()):
            raise _MisfitError(f"has an unknown key {_shown(unknown[0])}")
        if missing := sorted(needed - value.keys()):
            raise _MisfitError(f"lacks the key {missing[0]!r}")
        keys = list(value)
        decoded = _each((members[key][1] for key in keys), value.values(), lambda k: f".{keys[k]}")
        return kind(**dict(zip((members[key][0] for key in keys), decoded, strict=True)))

    return decode_all
