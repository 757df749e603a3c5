"""Training steps of FLUX.2 klein (4B) with an adapter, as PEFT's method comparison runs them: what record_without_gpu.py records.

usage: flux_steps.py EXPERIMENT [--steps 3]

EXPERIMENT is a name of flux_experiments.json, which holds what huggingface/peft keeps for it in method_comparison/image-gen/experiments.
Images of 512 pixels, batch 2, 512 tokens of text, checkpoints, AdamW, gradients clipped. Besides the transformer the device holds
what the script made before: 14 prompts' embeddings and latents, and DINOv2-base in four bytes for its evaluation.
"""
import argparse
import json
from pathlib import Path

import torch
from peft_steps import add_adapter, make_optimizer

KLEIN = {"in_channels": 128, "num_layers": 5, "num_single_layers": 20, "attention_head_dim": 128, "num_attention_heads": 24,
         "joint_attention_dim": 7680, "guidance_embeds": False}
PROMPTS, TEXT_TOKENS, SIDE, BATCH = 14, 512, 32, 2
DINO_PARAMETERS = 86_580_480


def make_model(experiment):
    from diffusers import Flux2Transformer2DModel
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Flux2Transformer2DModel(**KLEIN)
        torch.set_default_dtype(torch.float32)
    model.enable_gradient_checkpointing()
    return add_adapter(model, experiment)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment")
    parser.add_argument("--steps", type=int, default=3)
    asked = parser.parse_args()
    experiment = json.loads((Path(__file__).parent / "flux_experiments.json").read_text())[asked.experiment]
    model = make_model(experiment)
    optimizer = make_optimizer(model, experiment["training"])
    dino = torch.empty(DINO_PARAMETERS, device="cuda")
    prompts = torch.empty(PROMPTS, TEXT_TOKENS, KLEIN["joint_attention_dim"], device="cuda", dtype=torch.bfloat16)
    text_places = torch.zeros(PROMPTS, TEXT_TOKENS, 4, device="cuda")
    latents_all = torch.empty(PROMPTS, KLEIN["in_channels"], SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    torch.cuda.empty_cache()
    model.train()
    for step in range(asked.steps):
        chosen = torch.zeros(BATCH, dtype=torch.int64).to("cuda")
        latents, texts, places = (each.index_select(0, chosen) for each in (latents_all, prompts, text_places))
        image_places = torch.zeros(BATCH, SIDE * SIDE, 4, dtype=torch.int64).to("cuda")
        noise = torch.randn_like(latents)
        times = torch.zeros(BATCH).to("cuda")
        shares = torch.zeros(BATCH, 1, 1, 1, dtype=latents.dtype).to("cuda")
        noisy = (1.0 - shares) * latents + shares * noise
        packed = noisy.reshape(BATCH, -1, SIDE * SIDE).permute(0, 2, 1)
        optimizer.zero_grad(set_to_none=True)
        found = model(hidden_states=packed, timestep=times / 1000, guidance=None, encoder_hidden_states=texts, txt_ids=places,
                      img_ids=image_places, return_dict=False)[0]
        found = found[:, : packed.size(1)].permute(0, 2, 1).reshape(latents.shape)
        target = noise - latents
        loss = torch.mean(((found.float() - target.float()) ** 2).reshape(BATCH, -1), 1).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (experiment["adapter"] or {}).get("peft_type") == "ADALORA":
            model.base_model.update_and_allocate(step + 1)
        loss = loss.detach()
        loss.item()
    del dino


if __name__ == "__main__":
    main()
