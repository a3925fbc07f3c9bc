"""The command `directloss`: names what to install if a package is missing, and prints on any terminal."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        from .experiments.cli import app

        app()
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
