"""What a compiler leaves out of its graphs: ids say by their numbers which lists there are.

It is imported on first use: what keeps a function out of graphs takes two seconds to import.
"""

import torch

from . import loss

__all__ = ["structured_loss"]

structured_loss = torch.compiler.disable(loss.structured_loss)
