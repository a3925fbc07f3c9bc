"""HIV: molecules that were tried against the virus, as a table of fingerprints with right labels.

The file (MIT) is examples/hiv/HIV.csv of the GitHub repository deepchem/deepchem. Nothing of it is part of directloss.
"""

import csv
import io
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..harness.files import distrusted, write_whole
from ..harness.progress import Progress, Steps
from .sources import Source, read_sources
from .tabular import TableError

__all__ = ["convert_molecules"]

COMMIT = "fc37366f254ab1014a3dca056225116179ff67eb"
FILES = {
    "HIV.csv": Source(
        f"https://raw.githubusercontent.com/deepchem/deepchem/{COMMIT}/examples/hiv/HIV.csv",
        "d0e985c9c1191c77958ac52a278338c241858394fd3b299f56113329e1fc935c",
    )
}
COLUMNS, RADIUS = 512, 2
LONGEST = 2000  # characters of a molecule


def convert_molecules(root: Path, steps: Steps) -> str:
    """Write the table hiv: Morgan fingerprints, and whether a molecule is active."""
    if find_spec("rdkit") is None:
        raise TableError("Fingerprints of molecules need one more package: pip install rdkit")
    (text,) = read_sources(root, FILES, steps("fetching molecules"))
    with distrusted(f"The molecules in {root} cannot be read", TableError):
        rows = [(row["smiles"], row["HIV_active"]) for row in csv.DictReader(io.StringIO(text))]
        if not all(len(smiles) <= LONGEST and label in ("0", "1") for smiles, label in rows):
            raise TableError(f"A molecule must have at most {LONGEST} characters, and be active (1) or not (0).")
        known, inputs = _fingerprints([smiles for smiles, _ in rows], steps("fingerprints of molecules"))
        target = np.array([rows[k][1] == "1" for k in known])
    buffer = io.BytesIO()
    np.savez_compressed(buffer, X=inputs, y=target)
    write_whole(root / "hiv.npz", buffer.getvalue())
    unknown = len(rows) - len(known)
    return (
        f"{root} holds hiv.npz ({len(known)} molecules of DeepChem, MIT). RDKit could not read {unknown} molecules; "
        "they are left out."
    )


def _fingerprints(molecules: list[str], progress: Progress) -> tuple[list[int], NDArray[np.uint8]]:
    """Which molecules can be read, and their bits (molecules, COLUMNS)."""
    from rdkit import Chem, rdBase  # pyright: ignore[reportMissingImports]
    from rdkit.Chem import rdFingerprintGenerator  # pyright: ignore[reportMissingImports]

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=COLUMNS)
    known, found = [], []
    with rdBase.BlockLogs():
        for k, text in enumerate(molecules):
            if (molecule := Chem.MolFromSmiles(text)) is not None:
                known.append(k)
                found.append(generator.GetFingerprintAsNumPy(molecule))
            if k % 100 == 99 or k + 1 == len(molecules):
                progress((k + 1) / len(molecules))
    if not found:
        raise TableError("RDKit can read none of the molecules.")
    return known, np.stack(found)
