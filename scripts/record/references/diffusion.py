"""A denoising UNet (Ho et al., arXiv 2006.11239) with the parts of diffusers' UNet2DModel: residual blocks of two convolutions
with GroupNorm, attention at low resolution, and a way down whose results join the way up."""
import math

from references.models import device_model

GROUPS = 32


def parts(time_width):
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, before, after):
            super().__init__()
            self.norm1 = nn.GroupNorm(GROUPS, before)
            self.conv1 = nn.Conv2d(before, after, 3, padding=1)
            self.time = nn.Linear(time_width, after)
            self.norm2 = nn.GroupNorm(GROUPS, after)
            self.conv2 = nn.Conv2d(after, after, 3, padding=1)
            self.shortcut = nn.Conv2d(before, after, 1) if before != after else None

        def forward(self, values, time):
            inner = self.norm1(values)
            inner = nn.functional.silu(inner)
            inner = self.conv1(inner)
            rows = self.time(nn.functional.silu(time))[:, :, None, None]
            inner = inner + rows
            inner = self.norm2(inner)
            inner = nn.functional.silu(inner)
            inner = self.conv2(inner)
            if self.shortcut is not None:
                values = self.shortcut(values)
            return values + inner

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.heads = width // 64
            self.norm = nn.GroupNorm(GROUPS, width)
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

        def forward(self, values):
            batch, width, rows, columns = values.shape
            inner = self.norm(values).view(batch, width, rows * columns).transpose(1, 2)
            query, key, value = (part(inner).view(batch, -1, self.heads, 64).transpose(1, 2)
                                 for part in (self.query, self.key, self.value))
            inner = nn.functional.scaled_dot_product_attention(query, key, value)
            inner = self.out(inner.transpose(1, 2).reshape(batch, -1, width))
            return values + inner.transpose(1, 2).reshape(batch, width, rows, columns)

    class Level(nn.Module):
        """Residual blocks of one resolution, each with attention where `attends`."""
        def __init__(self, befores, after, attends):
            super().__init__()
            self.residuals = nn.ModuleList(Residual(before, after) for before in befores)
            self.attentions = nn.ModuleList(Attention(after) for _ in befores if attends)

    return Residual, Attention, Level


def sines(times, width):
    import torch
    half = width // 2
    frequencies = torch.exp(torch.arange(half, device=times.device, dtype=torch.float32) * (-math.log(10000) / half))
    angles = times[:, None].float() * frequencies[None]
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=-1)


def unet(channels=(128, 256, 256), attention=(False, True, False), blocks=2, colours=3):
    import torch
    from torch import nn
    time_width = 4 * channels[0]
    Residual, Attention, Level = parts(time_width)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(colours, channels[0], 3, padding=1)
            self.time = nn.Sequential(nn.Linear(channels[0], time_width), nn.SiLU(), nn.Linear(time_width, time_width))
            self.down, self.shrink, self.up, self.grow = (nn.ModuleList() for _ in range(4))
            widths = [channels[0]]
            for index, after in enumerate(channels):
                self.down.append(Level([widths[-1]] + [after] * (blocks - 1), after, attention[index]))
                widths += [after] * blocks
                if index + 1 < len(channels):
                    self.shrink.append(nn.Conv2d(after, after, 3, stride=2, padding=1))
                    widths.append(after)
            self.middle1 = Residual(channels[-1], channels[-1])
            self.middle = Attention(channels[-1])
            self.middle2 = Residual(channels[-1], channels[-1])
            last = channels[-1]
            for index, after in reversed(list(enumerate(channels))):
                befores = [(after if step else last) + widths.pop() for step in range(blocks + 1)]
                last = after
                self.up.append(Level(befores, after, attention[index]))
                if index > 0:
                    self.grow.append(nn.Conv2d(after, after, 3, padding=1))
            self.norm = nn.GroupNorm(GROUPS, channels[0])
            self.last = nn.Conv2d(channels[0], colours, 3, padding=1)

        def forward(self, values, times):
            time = self.time(sines(times, channels[0]).to(values.dtype))
            values = self.first(values)
            kept = [values]
            for index, level in enumerate(self.down):
                for step, residual in enumerate(level.residuals):
                    values = residual(values, time)
                    values = level.attentions[step](values) if attention[index] else values
                    kept.append(values)
                if index < len(self.shrink):
                    values = self.shrink[index](values)
                    kept.append(values)
            values = self.middle2(self.middle(self.middle1(values, time)), time)
            for index, level in enumerate(self.up):
                for step, residual in enumerate(level.residuals):
                    values = residual(torch.cat([values, kept.pop()], dim=1), time)
                    values = level.attentions[step](values) if len(level.attentions) > 0 else values
                if index < len(self.grow):
                    values = nn.functional.interpolate(values, scale_factor=2.0, mode="nearest")
                    values = self.grow[index](values)
            return self.last(nn.functional.silu(self.norm(values)))

    return Model()


def train_unet(recording, model, batch, side, optimizer, autocast, steps):
    """Noise is predicted."""
    import contextlib

    import torch
    dtype = next(model.parameters()).dtype
    for step in range(steps):
        recording.mark(f"step{step}")
        images = torch.randn(batch, 3, side, side, device="cuda", dtype=dtype)
        noise = torch.randn_like(images)
        times = torch.randint(0, 1000, (batch,), device="cuda")
        with torch.autocast("cuda", dtype=autocast) if autocast else contextlib.nullcontext():
            predicted = model(images, times)
            loss = torch.nn.functional.mse_loss(predicted, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    recording.mark("end")


def unet_fp32(recording):
    """A UNet of 128, 256 and 256 channels, 2 blocks each, attention at half resolution, 16 images of 3 x 64 x 64, fp32, AdamW
    (foreach), 3 steps."""
    import torch
    model = device_model(unet())
    train_unet(recording, model, 16, 64, torch.optim.AdamW(model.parameters()), None, 3)


def unet_amp(recording):
    """A UNet of 64, 128, 256 and 256 channels, 2 blocks each, attention at a quarter of the resolution, 8 images of 3 x 128 x
    128, bf16 autocast, AdamW (foreach), 3 steps."""
    import torch
    model = device_model(unet((64, 128, 256, 256), (False, False, True, False)))
    train_unet(recording, model, 8, 128, torch.optim.AdamW(model.parameters()), torch.bfloat16, 3)


def unet_wide_amp(recording):
    """A UNet of 192, 384 and 768 channels, 2 blocks each, attention at a quarter of the resolution, 4 images of 3 x 64 x 64, bf16
    autocast, AdamW (foreach), 3 steps. Its workload, written before it was recorded:
    unet:channels=192/384/768,attention=0/0/1,image=64,batch=4,steps=3"""
    import torch
    model = device_model(unet((192, 384, 768), (False, False, True)))
    train_unet(recording, model, 4, 64, torch.optim.AdamW(model.parameters()), torch.bfloat16, 3)


def unet_small_fp32(recording):
    """A UNet of 64 and 128 channels, 2 blocks each, attention at half resolution, 32 images of 3 x 32 x 32, fp32, AdamW (foreach),
    3 steps. Its workload, written before it was recorded:
    unet:channels=64/128,attention=0/1,image=32,batch=32,steps=3,precision=fp32"""
    import torch
    model = device_model(unet((64, 128), (False, True)))
    train_unet(recording, model, 32, 32, torch.optim.AdamW(model.parameters()), None, 3)


PROGRAMS = (unet_fp32, unet_amp, unet_wide_amp, unet_small_fp32)
