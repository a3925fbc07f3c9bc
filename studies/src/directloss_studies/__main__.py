"""The command `directloss`: names what to install if a package is missing, and prints on any terminal."""

import os
import sys

from .interrupts import ended_by_signals  # first: from here on Ctrl-C ends the command quietly, also while torch loads

__all__ = ["main"]


def main() -> None:
    """Run the command line. An error of the system, e.g. a full disk, is a sentence and exit code 2."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        getattr(sys, name).reconfigure(errors="replace")
    try:
        from .cli import app

        with ended_by_signals():
            app()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        wanted = _packages()
        if error.name not in wanted:
            raise
        print(f"{error.name} is missing. Install it with: pip install '{wanted[error.name]}'", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        from .cli.terminal import errors, in_words

        errors.print(in_words(error), style="red")
        sys.exit(2)


def _packages() -> dict[str, str]:
    """What to install for each module that the studies import and may not find."""
    from importlib.metadata import requires

    modules = {"pillow": "PIL", "scikit-learn": "sklearn"}
    found = {}
    for requirement in requires("directloss-studies") or []:  # e.g. rich>=13; extra == 'ray'
        package = requirement.partition(";")[0].strip()
        name = package.partition(">")[0]
        found[modules.get(name, name)] = package
    return found


if __name__ == "__main__":
    main()
