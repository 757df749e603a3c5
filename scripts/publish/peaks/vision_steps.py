"""Training steps of an image classifier, as published tables ran them: what record_without_gpu.py records. Without a GPU nothing is computed.

usage: vision_steps.py MODEL --batch N [--library timm] [--image 224] [--program timm|plain] [--steps 3]

program timm: timm's train.py with its presets: SGD with Nesterov momentum, weight decay but for biases and norms, label smoothing, and
a loader that brings the next batch to the device on a stream of its own while a step runs. plain: Adam and cross entropy.
"""
import argparse

import torch


def make_model(asked):
    if asked.library == "timm":
        import timm
        sized = {"img_size": asked.image} if asked.image and "resnet" not in asked.model else {}
        return timm.create_model(asked.model, num_classes=1000, **sized)
    import torchvision
    options = {"aux_logits": False} if asked.model == "inception_v3" else {}
    return getattr(torchvision.models, asked.model)(weights=None, num_classes=1000, **options)


def image_side(asked, model):
    if asked.image:
        return asked.image
    return model.pretrained_cfg["input_size"][-1] if asked.library == "timm" and asked.program == "timm" else 224


def timm_batches(asked, side):
    """timm.data.loader.PrefetchLoader: pixels come in one byte, and become four on the loader's stream."""
    stream = torch.cuda.Stream()
    mean, deviation = (torch.tensor(three, device="cuda").view(1, 3, 1, 1) for three in ([124.0, 116.0, 104.0], [58.0, 57.0, 57.0]))
    images = target = None
    for step in range(asked.steps + 1):
        with torch.cuda.stream(stream):
            next_images = torch.zeros(asked.batch, 3, side, side, dtype=torch.uint8).to("cuda", non_blocking=True)
            next_target = torch.zeros(asked.batch, dtype=torch.int64).to("cuda", non_blocking=True)
            next_images = next_images.to(torch.float32).sub_(mean).div_(deviation)
        if step:
            yield images, target
        torch.cuda.current_stream().wait_stream(stream)
        images, target = next_images, next_target


def train_as_timm(asked, model):
    import timm.optim
    from timm.loss import LabelSmoothingCrossEntropy
    optimizer = timm.optim.create_optimizer_v2(model, opt="sgd", lr=0.05, weight_decay=2e-5, momentum=0.9)
    loss_of = LabelSmoothingCrossEntropy(smoothing=0.1).to("cuda")
    model.train()
    optimizer.zero_grad()
    for images, target in timm_batches(asked, image_side(asked, model)):
        loss = loss_of(model(images), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def train_plain(asked, model):
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    side = image_side(asked, model)
    model(torch.zeros(2, 3, side, side, device="cuda"))  # torchsummary's look at the model
    for _ in range(asked.steps):
        model.train()
        images = torch.zeros(asked.batch, 3, side, side).to("cuda")
        labels = torch.zeros(asked.batch, dtype=torch.int64).to("cuda")
        optimizer.zero_grad()
        outputs = model(images)
        loss = loss_of(outputs, labels)
        loss.backward()
        optimizer.step()
        loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--library", choices=("timm", "torchvision"), default="timm")
    parser.add_argument("--image", type=int, help="pixels of a side (preset: the model's)")
    parser.add_argument("--program", choices=("timm", "plain"), default="timm")
    parser.add_argument("--steps", type=int, default=3)
    asked = parser.parse_args()
    with torch.device("cuda"):
        model = make_model(asked)
    (train_as_timm if asked.program == "timm" else train_plain)(asked, model)


if __name__ == "__main__":
    main()
