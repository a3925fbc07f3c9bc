"""The way to the host and back: inference runs on the CPU, and scores may live on a device.

All tensors of a call are copied at once, and the host waits for them once. Nothing waits on the way back.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["beside", "to_host"]

ASYNCHRONOUS = {"cuda", "xpu"}  # devices that copy into pinned memory while the host goes on; ROCm calls itself cuda


def to_host(*tensors: Tensor | None) -> list[Any]:
    """Tensors of one device on the host; None stays None."""
    devices = {tensor.device for tensor in tensors if tensor is not None and not tensor.is_cpu}
    if not devices:
        return list(tensors)
    (device,) = devices
    if device.type not in ASYNCHRONOUS:
        return [None if tensor is None else tensor.cpu() for tensor in tensors]
    copies = [
        None if tensor is None else _pinned(tensor).copy_(tensor.detach(), non_blocking=True) for tensor in tensors
    ]
    torch.get_device_module(device).current_stream(device).synchronize()
    return copies


def beside(tensor: Tensor, *arrays: NDArray[Any]) -> list[Tensor]:
    """Arrays as tensors on the device of a tensor."""
    tensors = [torch.from_numpy(array) for array in arrays]
    if tensor.is_cpu:
        return tensors
    if tensor.device.type in ASYNCHRONOUS:
        tensors = [_pinned(one).copy_(one) for one in tensors]
    return [one.to(tensor.device, non_blocking=True) for one in tensors]


def _pinned(tensor: Tensor) -> Tensor:
    """Memory of the host like a tensor, which a device can reach while the host goes on; torch keeps it for later."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
