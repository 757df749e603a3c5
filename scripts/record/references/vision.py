"""Images: ViT as timm writes it, and a diffusion transformer (Peebles and Xie, arXiv 2212.09748) from timm's parts."""
import math

from references.models import device_model


def timm_vit_amp(recording):
    """timm's vit_base_patch16_224, 32 images, bf16 autocast, AdamW (foreach), 4 steps."""
    import timm
    import torch
    model = device_model(timm.create_model("vit_base_patch16_224", pretrained=False))
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(4):
        recording.mark(f"step{step}")
        images = torch.randn(32, 3, 224, 224, device="cuda")
        labels = torch.randint(0, 1000, (32,), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def dit(layers, hidden, heads, side=32, patch=2, channels=4, classes=1000):
    """Blocks whose norms are shifted, scaled and gated by the time and the class."""
    import torch
    from timm.models.vision_transformer import Attention, Mlp, PatchEmbed
    from torch import nn

    def modulated(values, shift, scale):
        return values * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)

    class Time(nn.Module):
        def __init__(self):
            super().__init__()
            self.mlp = nn.Sequential(nn.Linear(256, hidden), nn.SiLU(), nn.Linear(hidden, hidden))

        def forward(self, times):
            frequencies = torch.exp(torch.arange(128, dtype=torch.float32, device=times.device) * (-math.log(10000) / 128))
            angles = times[:, None].float() * frequencies[None]
            return self.mlp(torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1 = nn.LayerNorm(hidden, elementwise_affine=False, eps=1e-6)
            self.attn = Attention(hidden, num_heads=heads, qkv_bias=True)
            self.norm2 = nn.LayerNorm(hidden, elementwise_affine=False, eps=1e-6)
            self.mlp = Mlp(hidden, 4 * hidden, act_layer=lambda: nn.GELU(approximate="tanh"))
            self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden, 6 * hidden))

        def forward(self, values, condition):
            shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(condition).chunk(6, dim=1)
            values = values + gate1.unsqueeze(1) * self.attn(modulated(self.norm1(values), shift1, scale1))
            return values + gate2.unsqueeze(1) * self.mlp(modulated(self.norm2(values), shift2, scale2))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = PatchEmbed(side, patch, channels, hidden)
            self.time = Time()
            self.classes = nn.Embedding(classes + 1, hidden)
            self.positions = nn.Parameter(torch.zeros(1, (side // patch) ** 2, hidden), requires_grad=False)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(hidden, elementwise_affine=False, eps=1e-6)
            self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden, 2 * hidden))
            self.out = nn.Linear(hidden, patch * patch * 2 * channels)

        def forward(self, images, times, labels):
            values = self.patches(images) + self.positions
            condition = self.time(times) + self.classes(labels)
            for block in self.blocks:
                values = block(values, condition)
            shift, scale = self.modulation(condition).chunk(2, dim=1)
            values = self.out(modulated(self.norm(values), shift, scale))
            rows = side // patch
            values = values.reshape(-1, rows, rows, patch, patch, 2 * channels)
            return torch.einsum("nhwpqc->nchpwq", values).reshape(-1, 2 * channels, side, side)

    return Model()


def train_dit(recording, model, batch, optimizer, autocast, steps, side=32):
    """Noise is predicted; the variance that the model also gives has no part in the loss."""
    import contextlib

    import torch
    dtype = next(model.parameters()).dtype
    for step in range(steps):
        recording.mark(f"step{step}")
        images = torch.randn(batch, 4, side, side, device="cuda", dtype=dtype)
        noise = torch.randn_like(images)
        times = torch.randint(0, 1000, (batch,), device="cuda")
        labels = torch.randint(0, 1000, (batch,), device="cuda")
        with torch.autocast("cuda", dtype=autocast) if autocast else contextlib.nullcontext():
            predicted = model(images, times, labels)[:, :4]
            loss = torch.nn.functional.mse_loss(predicted, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def dit_s2_amp(recording):
    """A DiT-S/2 (12 x 384, 6 heads) on latents of 4 x 32 x 32, batch 32, bf16 autocast, AdamW (foreach), 3 steps."""
    import torch
    model = device_model(dit(12, 384, 6))
    train_dit(recording, model, 32, torch.optim.AdamW(p for p in model.parameters() if p.requires_grad), torch.bfloat16, 3)


def dit_b4_fp32(recording):
    """A DiT-B/4 (12 x 768, 12 heads) on latents of 4 x 32 x 32, batch 16, fp32, AdamW (fused), 3 steps."""
    import torch
    model = device_model(dit(12, 768, 12, patch=4))
    train_dit(recording, model, 16, torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), fused=True), None, 3)


PROGRAMS = (timm_vit_amp, dit_s2_amp, dit_b4_fp32)
