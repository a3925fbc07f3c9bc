"""The command `directloss`: names what to install if a package is missing, and prints on any terminal."""

import os
import sys

from .interrupts import ended_by_signals

__all__ = ["main"]


def main() -> None:
    """Run the command line. An error of the system, e.g. a full disk, is a sentence and exit code 2."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        getattr(sys, name).reconfigure(errors="replace")
    try:
        from .experiments.cli import app

        with ended_by_signals():
            app()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name not in ("PIL", "defusedxml", "joblib", "matplotlib", "ray", "rich", "typer"):
            raise
        packages = "ray" if error.name == "ray" else _packages("experiments")
        said = (
            f"{error.name} is missing. The command directloss needs more packages than the library. Install them with:"
        )
        print(f"{said} pip install {packages}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        from .experiments.cli.terminal import errors, in_words

        errors.print(in_words(error), style="red")
        sys.exit(2)


def _packages(extra: str) -> str:
    """What an extra brings, by name: it can be installed wherever directloss itself came from."""
    from importlib.metadata import requires

    marked = (one.partition(";") for one in requires("directloss") or [])  # e.g. rich>=13; extra == 'experiments'
    return " ".join(f"'{package.strip()}'" for package, _, marker in marked if f"extra == '{extra}'" in marker)


if __name__ == "__main__":
    main()
