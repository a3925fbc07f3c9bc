"""Dataclasses to plain JSON values and back, so that what is read from disk has types.

A dataclass is an object in JSON; a tuple or a named tuple is a list. The name of a
field in JSON can be given: `held_out: Annotated[int, JsonName("held out")]`.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
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
        decoders = [_decoder(hints[name]) for name in names]
        return _record(lambda values: kind(*values), [f".{name}" for name in names], decoders)
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
            raise _MisfitError(f"must be {words}; got {_shown(value)}")
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


def _sequence(decoder: Decoder) -> Decoder:
    def decode_all(value: Any) -> Any:
        if type(value) is not list:
            raise _MisfitError(f"must be a list; got {_shown(value)}")
        found = []
        try:
            for each in value:
                found.append(decoder(each))
        except _MisfitError as error:
            raise error.within(f"[{len(found)}]") from None
        return tuple(found)

    return decode_all


def _record(make: Callable[[list[Any]], Any], places: list[str], decoders: list[Decoder]) -> Decoder:
    """Of a tuple that has a fixed length."""

    def decoder(value: Any) -> Any:
        if type(value) is not list or len(value) != len(decoders):
            raise _MisfitError(f"must be a list of {len(decoders)}; got {_shown(value)}")
        found = []
        try:
            for each, decode_one in zip(value, decoders, strict=True):
                found.append(decode_one(each))
        except _MisfitError as error:
            raise error.within(places[len(found)]) from None
        return make(found)

    return decoder


def _mapping(decoder: Decoder) -> Decoder:
    def decode_all(value: Any) -> Any:
        if type(value) is not dict:
            raise _MisfitError(f"must be an object; got {_shown(value)}")
        found = {}
        for key, each in value.items():
            try:
                found[key] = decoder(each)
            except _MisfitError as error:
                raise error.within(f"[{key!r}]") from None
        return found

    return decode_all


def _dataclass(kind: Any) -> Decoder:
    members = {key: (name, _decoder(hint)) for key, (name, hint) in _members(kind).items()}
    defaults = {of.name for of in fields(kind) if (of.default, of.default_factory) != (MISSING, MISSING)}
    needed = {key for key, (name, _) in members.items() if name not in defaults}

    def decoder(value: Any) -> Any:
        if type(value) is not dict:
            raise _MisfitError(f"must be an object; got {_shown(value)}")
        if unknown := sorted(value.keys() - members.keys()):
            raise _MisfitError(f"has an unknown key {_shown(unknown[0])}")
        if missing := sorted(needed - value.keys()):
            raise _MisfitError(f"lacks the key {missing[0]!r}")
        found = {}
        for key, each in value.items():
            name, decode_one = members[key]
            try:
                found[name] = decode_one(each)
            except _MisfitError as error:
                raise error.within(f".{key}") from None
        return kind(**found)

    return decoder
