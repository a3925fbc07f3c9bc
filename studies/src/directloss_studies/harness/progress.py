"""How work reports its progress: one callback for a share, one for the steps that work has."""

from typing import Protocol

__all__ = ["Progress", "Steps", "no_progress", "no_steps"]


class Progress(Protocol):
    """A progress callback: it is called with the finished share, from 0 to 1."""

    def __call__(self, share: float, /) -> object:
        """Report that this share is finished."""
        ...


class Steps(Protocol):
    """Called with what is done next, in words. Returns the progress callback of that step."""

    def __call__(self, text: str, /) -> Progress:
        """Begin a step."""
        ...


def no_progress(share: float, /) -> None:
    """Report nothing."""


def no_steps(text: str, /) -> Progress:
    """Report nothing."""
    return no_progress
