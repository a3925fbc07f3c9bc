"""Execute the notebooks of docs/notebooks and store what they print and draw, so that GitHub shows it.

    python -m docs.store_outputs

Only results are stored: no messages of the logger, no times, no counts of executions. The site executes anew.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

__all__ = ["NOTEBOOKS", "stored"]

NOTEBOOKS = Path(__file__).parent / "notebooks"
SHOWN = ("image/png", "image/svg+xml", "text/plain")  # of a picture the first one is enough


def stored(notebook: Any) -> Any:
    """The notebook with the outputs of its code, and nothing else that an execution leaves."""
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = _joined([found for output in cell.outputs if (found := _result(output))])
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """How a text came in parts depends on the machine."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.output_type == joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _result(output: Any) -> Any:
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    kind = next(kind for kind in SHOWN if kind in output.data)
    output.data = {kind: output.data[kind]}
    output.metadata = {}
    if "execution_count" in output:
        output.execution_count = None
    return output


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    asyncio.set_event_loop(asyncio.new_event_loop())
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = stored(nbformat.read(path, as_version=4))
        path.write_text(nbformat.writes(notebook, indent=1) + "\n")
        print(f"{path.name}: {path.stat().st_size:,} bytes")
