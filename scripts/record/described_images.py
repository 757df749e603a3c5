"""The programs of images that texts of `train`, `infer` and `unet` describe: ViT of transformers and of timm, DiT, UNet."""
import record_pytorch
from references import diffusion, vision

IMAGE = 224
# Words are drawn from 2 on.
IMAGE_TOKEN = 1


def with_loss(model):
    """timm's model with the loss that transformers' models have themselves."""
    from torch import nn
    from transformers.modeling_outputs import ImageClassifierOutput

    class Classified(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, pixel_values, labels):
            return ImageClassifierOutput(loss=nn.functional.cross_entropy(self.model(pixel_values), labels))

    return Classified()


def vit(keys):
    shape = {name: keys.number(key) for name, key in (("hidden_size", "hidden"), ("num_hidden_layers", "layers"), ("intermediate_size", "ffn"),
                                                     ("num_attention_heads", "heads"), ("image_size", "image"), ("patch_size", "patch"))}
    if keys.word("implementation", "transformers") == "timm":
        from timm.models.vision_transformer import VisionTransformer
        keys.word("attention")
        return with_loss(VisionTransformer(img_size=shape["image_size"], patch_size=shape["patch_size"], num_classes=keys.number("classes"),
                                                  embed_dim=shape["hidden_size"], depth=shape["num_hidden_layers"],
                                                  num_heads=shape["num_attention_heads"],
                                                  mlp_ratio=shape["intermediate_size"] / shape["hidden_size"]))
    import transformers
    attention = "sdpa" if keys.word("attention", "fused") == "fused" else "eager"
    return transformers.ViTForImageClassification(transformers.ViTConfig(attn_implementation=attention, num_labels=keys.number("classes"), **shape))


def llava(keys, words, attention):
    """A ViT-base whose patches are put into a text of `words`."""
    from transformers import LlavaConfig, LlavaForConditionalGeneration, ViTConfig
    model = LlavaForConditionalGeneration(LlavaConfig(vision_config=ViTConfig(image_size=IMAGE, patch_size=16), text_config=words,
                                                      image_token_index=IMAGE_TOKEN, image_token_id=IMAGE_TOKEN, attn_implementation=attention))
    model.model.vision_tower.requires_grad_(not keys.number("vision_frozen"))
    return model


def with_images(keys, inputs, dtype):
    """Patches stand behind each text's first token."""
    ids = inputs["input_ids"]
    ids[:, 1:1 + (IMAGE // 16) ** 2].fill_(IMAGE_TOKEN)
    return {"input_ids": ids, "pixel_values": pixels(keys, len(ids), dtype), "labels": ids}


def pixels(keys, count, dtype):
    import torch
    side = keys.number("image", IMAGE)
    return torch.randn(count, 3, side, side, device="cuda", dtype=dtype)


def classified_batches(keys, dtype):
    """Makes the inputs of one pass of a ViT, of the preset number of images or of another."""
    import torch
    classes, preset = keys.number("classes"), keys.number("batch")

    def make(count=0):
        count = count or preset
        return {"pixel_values": pixels(keys, count, dtype), "labels": torch.randint(0, classes, (count,), device="cuda")}

    return make


class Parts:
    """Steps of the reference programs are parts here."""

    def mark(self, label):
        record_pytorch.mark(label.replace("step", "part"))


def train_noise(keys, dtype, make_optimizer):
    """DiT and UNet learn to predict noise."""
    import torch
    batch, side, steps = keys.number("batch"), keys.number("image"), keys.number("steps", 4)
    autocast = torch.bfloat16 if keys.word("precision", "bf16_autocast") == "bf16_autocast" else None
    if keys.family == "unet":
        model = diffusion.unet(tuple(keys.numbers("channels", "")), tuple(map(bool, keys.numbers("attention", ""))), keys.number("blocks", 2))
    else:
        keys.word("ffn")  # four times the width, as the model has it
        model = vision.dit(keys.number("layers"), keys.number("hidden"), keys.number("heads"), side, keys.number("patch"), classes=keys.number("classes"))
    model = model.to("cuda", dtype).train()
    optimizer = make_optimizer(keys, [one for one in model.parameters() if one.requires_grad])
    keys.check()
    if keys.family == "unet":
        diffusion.train_unet(Parts(), model, batch, side, optimizer, autocast, steps)
    else:
        vision.train_dit(Parts(), model, batch, optimizer, autocast, steps, side)


def classify(keys, dtype):
    """Answers batches of images."""
    import torch
    model = vit(keys).to("cuda", dtype).eval()
    counts = keys.numbers("batches", "1")
    keys.asked.update(("requests", "batch"))  # said by `batches`
    keys.number("image")
    keys.check()
    for index, count in enumerate(counts):
        record_pytorch.mark(f"part{index}")
        with torch.no_grad():
            result = model(pixel_values=pixels(keys, count, dtype)).logits
        del result
