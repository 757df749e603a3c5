"""Programs whose products have fewer than sixteen bits: weights of 8 or 4 bits that are made whole for every product, and
training in float8."""
from references.models import device_model, generate, llama, tokens, train

GROUP = 128  # weights with one scale


def quantized_linear(columns, rows, bits, bias=None):
    """A product whose weight has `bits` bits (two of four bits in a byte) and a scale of two bytes per group."""
    import torch
    from torch import nn

    class QuantizedLinear(nn.Module):
        def __init__(self):
            super().__init__()
            count = columns * rows
            packed = torch.randint(-128, 128, (count,), dtype=torch.int8)
            self.register_buffer("packed", packed if bits == 8 else packed[:count // 2].view(torch.uint8))
            self.register_buffer("scales", torch.rand(count // GROUP, 1))
            self.register_buffer("bias", None if bias is None else bias.data)

        def whole(self, dtype):
            values = self.packed
            if bits == 4:
                values = torch.stack((values & 15, values >> 4), dim=-1)
            values = values.view(-1, GROUP).to(dtype)
            if bits == 4:
                values = values - 8
            return (values * self.scales).view(rows, columns)

        def forward(self, inputs):
            return nn.functional.linear(inputs, self.whole(inputs.dtype), self.bias)

    return QuantizedLinear()


def nf4_linear(linear):
    """bitsandbytes' product: the weight has four bits, with scales of scales, once it goes to the device."""
    import bitsandbytes
    import torch
    options = {"compress_statistics": True, "quant_type": "nf4"}
    narrow = bitsandbytes.nn.Linear4bit(linear.in_features, linear.out_features, bias=linear.bias is not None,
                                        compute_dtype=torch.bfloat16, **options)
    narrow.weight = bitsandbytes.nn.Params4bit(linear.weight.data.to(torch.bfloat16), requires_grad=False, module=narrow, **options)
    if linear.bias is not None:
        narrow.bias = linear.bias
    return narrow


def fp8_linear(linear):
    """The product in float8 with a scale per tensor that is found anew each time, forward and backward; activations and weights
    are saved in float8."""
    import torch
    from torch import nn

    def narrowed(values, kind):
        """`values` in eight bits, and what they were divided by."""
        highest = torch.finfo(kind).max
        scale = values.abs().amax().float() / highest
        return (values / scale).clamp(-highest, highest).to(kind), scale

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(context, values, weight):
            narrow_values, values_scale = narrowed(values, torch.float8_e4m3fn)
            narrow_weight, weight_scale = narrowed(weight, torch.float8_e4m3fn)
            context.save_for_backward(narrow_values, values_scale, narrow_weight, weight_scale)
            return torch._scaled_mm(narrow_values, narrow_weight.t(), values_scale, weight_scale, out_dtype=values.dtype)

        @staticmethod
        def backward(context, gradient):
            narrow_values, values_scale, narrow_weight, weight_scale = context.saved_tensors
            narrow, scale = narrowed(gradient, torch.float8_e5m2)
            # cuBLASLt wants the second factor column by column.
            of_values = torch._scaled_mm(narrow, narrow_weight.t().contiguous().t(), scale, weight_scale,
                                         out_dtype=gradient.dtype)
            of_weight = torch._scaled_mm(narrow.t().contiguous(), narrow_values.t().contiguous().t(), scale, values_scale,
                                         out_dtype=gradient.dtype)
            return of_values, of_weight

    class Fp8Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = linear.weight

        def forward(self, inputs):
            rows = inputs.reshape(-1, inputs.shape[-1])
            return Product.apply(rows, self.weight).view(*inputs.shape[:-1], -1)

    return Fp8Linear()


def with_products(model, make):
    """Replaces the matrices of all blocks."""
    from torch import nn
    for block in model.model.layers:
        for part in (block.self_attn, block.mlp):
            for name, child in list(part.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(part, name, make(child))
    return model


def llama_int8_generate(recording):
    """Llama-shaped 8 x 2048 (16 heads, 4 kv), weights of the blocks in 8 bits, batch 4, prompt 200, 24 new tokens."""
    import torch
    model = with_products(llama("sdpa"), lambda linear: quantized_linear(linear.in_features, linear.out_features, 8))
    generate(recording, device_model(model, torch.bfloat16).eval(), 32000, 4, [200], 24)


def llama_int4_generate(recording):
    """Llama-shaped 6 x 2048 (16 heads, 4 kv), weights of the blocks in 4 bits, batch 1, prompts 300 and 77, 16 new tokens."""
    import torch
    model = with_products(llama("sdpa", num_hidden_layers=6),
                          lambda linear: quantized_linear(linear.in_features, linear.out_features, 4))
    generate(recording, device_model(model, torch.bfloat16).eval(), 32000, 1, [300, 77], 16)


def llama_fp8(recording):
    """Llama-shaped 6 x 2048 (16 heads, 4 kv), batch 2 x 1024, bf16 with the blocks' products in float8 forward and backward,
    no KV cache, AdamW (fused), 3 steps."""
    import torch
    model = with_products(device_model(llama("sdpa", num_hidden_layers=6, use_cache=False), torch.bfloat16), fp8_linear)
    train(recording, model, torch.optim.AdamW(model.parameters(), fused=True), [tokens(32000, 2, 1024)] * 3)


PROGRAMS = (llama_int8_generate, llama_int4_generate, llama_fp8)
