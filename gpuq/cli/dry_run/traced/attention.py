"""What PyTorch's fused kernels for attention allocate on a GPU.

On `meta` it would run attention as two products with the whole matrix of scores between them, which the kernels never hold.
The conditions are those of `sdp_utils.cpp` in PyTorch 2: the memory-efficient kernel runs on every GPU since Maxwell.
"""

from __future__ import annotations

from typing import Any

import torch

_BY_PRODUCTS = torch.nn.functional.scaled_dot_product_attention
# The heads of each type are multiples of so many numbers; else PyTorch takes the products.
_ALIGNED = {torch.float32: 4, torch.float16: 8, torch.bfloat16: 8}


class _Fused(torch.autograd.Function):  # type: ignore[misc]
    """Keeps the output and one number a row for the way back, and not the scores."""

    generate_vmap_rule = True

    @staticmethod
    def forward(query: Any, _: Any, value: Any) -> tuple[Any, Any]:
        *batch, heads, rows, _ = query.shape
        # As the kernels lay it out: what most often follows, joining the heads of a row, copies nothing.
        out = query.new_empty((*batch, rows, heads, value.shape[-1])).transpose(-3, -2)
        return out, query.new_empty((*batch, heads, rows), dtype=torch.float32)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[Any, ...]:
        query, key, value, *_ = ctx.saved_tensors
        # Sums are in 32 bits.
        summed = torch.empty_like(query, dtype=torch.float32)
        gradients = tuple(torch.empty_like(one) for one in (query, key, value))
        del summed
        return gradients


def attended(query: Any, key: Any, value: Any, attn_mask: Any = None, *options: Any, **named: Any) -> Any:
    """The output of `scaled_dot_product_attention`, by a fused kernel where a GPU would take one."""
    aligned, with_mask = _ALIGNED.get(query.dtype), attn_mask is not None
    # Heads that share keys: only the kernel for 16 bits without a mask can.
    shared = named.get("enable_gqa") and (with_mask or query.dtype is torch.float32)
    if (
        query.device.type != "meta"
        or aligned is None
        or any(one.dim() != 4 or one.dtype != query.dtype or one.shape[-1] % aligned for one in (query, key, value))
        or shared
        or (with_mask and attn_mask.requires_grad)
        or not torch.backends.cuda.mem_efficient_sdp_enabled()
    ):
        return _BY_PRODUCTS(query, key, value, attn_mask, *options, **named)
    return _Fused.apply(query, key, value)[0]
