"""Programs that train on images and video: convolutions whose sizes change, transformers, diffusion, a pair of adversaries."""
from programs.job import adamw, update


def resnet_scales(job):
    """ResNet-50, 64 images of 160 to 352 pixels, another size every step, SGD with momentum, the loss read."""
    import torch
    import torchvision
    with job.on_device():
        model = torchvision.models.resnet50().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in job.steps():
        yield
        side = job.random.choice(range(160, 353, 32))
        images = job.images(64, 3, side, side)
        labels = torch.randint(0, 1000, (images.shape[0],), device=job.device)
        with job.amp():
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        update(optimizer)
        loss.item()


def segment_sizes(job):
    """A fully convolutional ResNet-50 that labels every pixel, float32, channels last, 6 images of changing sizes."""
    import torch
    import torchvision
    with job.on_device():
        model = torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=21)
    model = model.to(memory_format=torch.channels_last).train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        sides = [job.random.choice(range(256, 513, 64)) for _ in range(2)]
        images = job.images(6, 3, *sides).contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 21, (images.shape[0], *images.shape[2:]), device=job.device)
        torch.nn.functional.cross_entropy(model(images)["out"], labels).backward()
        update(optimizer)


def vit_batches(job):
    """ViT-base, 48 to 160 images a step, bf16 autocast, AdamW."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification
    width = job.of(768, 64)
    config = ViTConfig(hidden_size=width, num_hidden_layers=job.of(12, 2), num_attention_heads=width // 64, intermediate_size=4 * width,
                       image_size=job.of(224, 32), num_labels=1000, attn_implementation="sdpa")
    with job.on_device():
        model = ViTForImageClassification(config).train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        images = job.images(job.random.choice(range(48, 161, 16)), 3, 224, 224)
        labels = torch.randint(0, 1000, (images.shape[0],), device=job.device)
        with job.amp():
            loss = model(pixel_values=images, labels=labels).loss
        loss.backward()
        update(optimizer)


def make_unet(width):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.first, self.second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
            self.norms = nn.ModuleList([nn.GroupNorm(8, outputs), nn.GroupNorm(8, outputs)])
            self.time = nn.Linear(256, outputs)
            self.skip = nn.Conv2d(inputs, outputs, 1)

        def forward(self, images, time):
            hidden = nn.functional.silu(self.norms[0](self.first(images))) + self.time(time)[:, :, None, None]
            return nn.functional.silu(self.norms[1](self.second(hidden))) + self.skip(images)

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [width, 2 * width, 4 * width, 4 * width]
            self.time = nn.Sequential(nn.Linear(1, 256), nn.SiLU(), nn.Linear(256, 256))
            self.begin = nn.Conv2d(3, width, 3, padding=1)
            self.down = nn.ModuleList([Block(a, b) for a, b in zip([width, *widths], widths)])
            self.attention = nn.MultiheadAttention(4 * width, 4, batch_first=True)
            self.up = nn.ModuleList([Block(2 * a, b) for a, b in zip(reversed(widths), [*reversed(widths[:-1]), width])])
            self.end = nn.Conv2d(width, 3, 3, padding=1)

        def forward(self, images, time):
            time, hidden, kept = self.time(time), self.begin(images), []
            for block in self.down:
                hidden = block(hidden, time)
                kept.append(hidden)
                hidden = nn.functional.avg_pool2d(hidden, 2)
            flat = hidden.flatten(2).transpose(1, 2)
            hidden = hidden + self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2).reshape(hidden.shape)
            for block in self.up:
                hidden = nn.functional.interpolate(hidden, scale_factor=2.0)
                hidden = block(torch.cat([hidden, kept.pop()], 1), time)
            return self.end(hidden)

    return Unet()


def unet_diffusion(job):
    """A U-Net learns to take noise off images of three sizes; a moving average of its weights is kept."""
    import torch
    with job.on_device():
        model = make_unet(job.of(96, 16)).train()
    optimizer = adamw(model)
    average = [one.detach().clone() for one in model.parameters()]
    for _ in job.steps():
        yield
        side = job.random.choice([64, 96, 128])
        images = job.images(16, 3, side, side)
        time = torch.rand(images.shape[0], 1, device=job.device)
        noise = torch.randn_like(images)
        with job.amp():
            guess = model(images * (1 - time[..., None, None]) + noise * time[..., None, None], time)
        torch.nn.functional.mse_loss(guess.float(), noise).backward()
        update(optimizer)
        with torch.no_grad():
            torch._foreach_lerp_(average, [one.detach() for one in model.parameters()], 0.01)


def gan(job):
    """A generator and a discriminator of convolutions, each with an optimizer; batches of 48 to 96 images."""
    import torch
    from torch import nn
    width = job.of(96, 8)

    def up(inputs, outputs):
        return [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU()]

    def down(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 4, 2, 1), nn.LeakyReLU(0.2)]

    with job.on_device():
        generator = nn.Sequential(nn.ConvTranspose2d(128, 8 * width, 4), nn.ReLU(), *up(8 * width, 8 * width), *up(8 * width, 4 * width),
                                  *up(4 * width, 2 * width), *up(2 * width, width), nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())
        judge = nn.Sequential(*down(3, width), *down(width, 2 * width), *down(2 * width, 4 * width), *down(4 * width, 8 * width),
                              *down(8 * width, 8 * width), nn.Flatten(), nn.Linear(8 * width * 16, 1))
    makers = [torch.optim.Adam(one.parameters(), lr=2e-4, betas=(0.5, 0.999)) for one in (generator, judge)]
    for _ in job.steps():
        yield
        batch = job.of(job.random.choice(range(48, 97, 16)), 2)
        real = torch.rand(batch, 3, 128, 128, device=job.device)
        made = generator(torch.randn(batch, 128, 1, 1, device=job.device))
        loss = nn.functional.softplus(-judge(real)).mean() + nn.functional.softplus(judge(made.detach())).mean()
        loss.backward()
        update(makers[1])
        nn.functional.softplus(-judge(made)).mean().backward()
        update(makers[0])
        makers[1].zero_grad(set_to_none=True)


def video_conv3d(job):
    """Three-dimensional convolutions over clips of 8 to 32 frames, bf16 autocast."""
    import torch
    from torch import nn
    width = job.of(48, 8)
    layers, inputs = [], 3
    for outputs, stride in ((width, 2), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
        layers += [nn.Conv3d(inputs, outputs, 3, (1, stride, stride), 1), nn.BatchNorm3d(outputs), nn.ReLU(),
                   nn.Conv3d(outputs, outputs, 3, 1, 1), nn.BatchNorm3d(outputs), nn.ReLU()]
        inputs = outputs
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(inputs, 400)).to(job.device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in job.steps():
        yield
        clips = job.images(8, 3, 8, 112, 112) if job.tiny else job.images(8, 3, job.random.choice([8, 16, 24, 32]), 160, 160)
        labels = torch.randint(0, 400, (clips.shape[0],), device=job.device)
        with job.amp():
            loss = nn.functional.cross_entropy(model(clips), labels)
        loss.backward()
        update(optimizer)
        loss.item()


def clip_contrastive(job):
    """Images and texts of varying length meet in one space: CLIP with two towers, batch 96."""
    from transformers import CLIPConfig, CLIPModel
    width = job.of(512, 64)
    tower = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": job.of(10, 2), "num_attention_heads": width // 64}
    config = CLIPConfig(text_config={**tower, "vocab_size": job.of(49408, 97), "max_position_embeddings": 256, "eos_token_id": 1},
                        vision_config={**tower, "image_size": job.of(224, 32), "patch_size": 16}, projection_dim=width)
    with job.on_device():
        model = CLIPModel(config).train()
    optimizer = adamw(model)
    for _ in job.steps():
        yield
        tokens = job.ids(96, job.longest(96, 40, 0.5, 8, 256), 49408)
        with job.amp():
            loss = model(input_ids=tokens, pixel_values=job.images(96, 3, 224, 224), return_loss=True).loss
        loss.backward()
        update(optimizer)


PROGRAMS = [resnet_scales, segment_sizes, vit_batches, unet_diffusion, gan, video_conv3d, clip_contrastive]
