"""The command `directloss`: says what to install where the command line's own packages are missing."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from .cli import app
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("directloss"):
            raise
        print(f"{error.name} is missing; install it with: pip install 'directloss[experiments]'", file=sys.stderr)
        sys.exit(1)
    app()


if __name__ == "__main__":
    main()
