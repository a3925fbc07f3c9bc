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
        if error.name not in ("PIL", "cv2", "defusedxml", "joblib", "matplotlib", "ray", "rich", "typer"):
            raise
        extra = "ray" if error.name == "ray" else "experiments"
        print(f"{error.name} is missing; install it with: pip install 'directloss[{extra}]'", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        from .experiments.cli.terminal import errors, in_words

        errors.print(in_words(error), style="red")
        sys.exit(2)


if __name__ == "__main__":
    main()
