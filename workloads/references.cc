#include "workloads/references.h"

#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace allocmark {
namespace {

using enum FreeRows;

constexpr auto kReferences = std::to_array<Reference>({
    // The two oldest GPT-2 programs divide each loss by 1: 4 bytes forward and backward.
    {"gpt2_train_amp", "train:gpt2-124m,batch=8,seq=1024,steps=4,attention=eager", 6803, 8, None,
     "GPT-2 124M training, batch 8 x 1024, bf16 autocast, AdamW, 4 steps"},
    {"gpt2_train_ckpt", "train:gpt2-124m,batch=8,seq=1024,steps=4,checkpoint=full,attention=eager",
     9092, 8, None, "the same with activation checkpointing"},
    {"llama_lora_varlen_accum",
     "train:llama-2-7b,layers=8,hidden=1536,heads=16,ffn=4096,batch=2,steps=3,accumulate=4,"
     "seq=167/412/127/351/552/557/844/542/291/"
     "249,precision=bf16,checkpoint=full,lora=16,events=30000,attention=eager",
     29000, 0, Blocks,
     "Llama-shaped LoRA fine-tuning, checkpointing, 4 accumulation steps of varying length"},
    {"bert_varlen_infer",
     "infer:bert-base,precision=fp32,requests=340,batch=16,"
     "batches=8/1/8/16/4/2/16/2/8/4/16/4/2/4/4/16/8/16/1/2/2/8/16/4/4/16/8/8/1/4/8/4"
     "/4/2/2/8/1/16/2/8/2/4/4/8/8/4/8/2/8/16/2/4/2,"
     "seq=267/86/368/314/246/115/411/169/245/71/351/345/72/309/437/228/240/270/250/200"
     "/160/291/221/220/125/170/204/351/149/176/126/209/216/117/218/347/124/264/119/261"
     "/281/145/184/411/429/133/199/83/222/512/172/308/460,events=30051,attention=eager",
     29990, 0, Blocks, "BERT-base inference, batches of 1-16 with lognormal lengths"},
    {"gpt2_medium_amp", "train:gpt2-355m,batch=4,seq=1024,steps=3,attention=eager", 10212, 0, None,
     "GPT-2 355M training, batch 4 x 1024, bf16 autocast, AdamW, 3 steps"},
    {"gpt2_bf16_sgd",
     "train:gpt2-124m,batch=8,seq=512,steps=4,precision=bf16,optimizer=sgd,attention=fused", 7700,
     0, Blocks, "GPT-2 124M training, batch 8 x 512, bf16, SGD, fused attention, 4 steps"},
    {"gpt2_accum_fp32",
     "train:gpt2-124m,batch=4,seq=256,steps=2,accumulate=3,precision=fp32,kv_cache=none,attention="
     "eager",
     7091, 0, None, "GPT-2 124M training, 3 micro steps of 4 x 256, fp32, AdamW, 2 steps"},
    {"bert_mlm_fp32",
     "train:bert-base,batch=16,seq=128,steps=4,precision=fp32,attention_mask=ones,attention=eager",
     10300, 0, Blocks, "BERT-base masked-LM training, batch 16 x 128, fp32, AdamW, 4 steps"},
    {"llama_bf16_fused",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "batch=4,seq=1024,steps=4,precision=bf16,optimizer=adamw_fused,attention=fused",
     8100, 0, Blocks,
     "Llama-shaped 8 x 2048 training, batch 4 x 1024, bf16, fused AdamW and attention, 4 steps"},
    {"llama_eager_amp",
     "train:llama-3-8b,layers=6,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000,"
     "batch=4,seq=512,steps=3,kv_cache=none,attention=eager",
     6200, 0, Blocks,
     "Llama-shaped 6 x 1024 training, batch 4 x 512, bf16 autocast, eager attention, 3 steps"},
    {"llama_ckpt_amp",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "batch=2,seq=2048,steps=3,checkpoint=full,attention=fused",
     5110, 0, None,
     "Llama-shaped 8 x 2048 training, batch 2 x 2048, bf16 autocast, checkpointing, 3 steps"},
    {"gpt2_generate",
     "infer:gpt2-124m,requests=8,batch=8,batches=8,seq=64,context_max=64,generated_max=63,"
     "lengths=lognormal,median=100000,sigma_percent=0,attention=fused,events=30002",
     29990, 0, Blocks, "GPT-2 124M generation, bf16, batch 8, prompt 64, growing KV cache"},
    {"llama_generate",
     "infer:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "requests=4,batch=4,batches=4,seq=200,context_max=200,generated_max=127,"
     "lengths=lognormal,median=100000,sigma_percent=0,attention=fused,events=30002",
     29990, 0, Blocks, "Llama-shaped 8 x 2048 generation, bf16, batch 4, growing KV cache"},
    {"gpt2_large_amp",
     "train:gpt2-774m,batch=2,seq=512,steps=2,optimizer=adamw_fused,attention=fused,kv_cache=none",
     8900, 0, None,
     "GPT-2 774M training, batch 2 x 512, bf16 autocast, fused AdamW and attention, 2 steps"},
    {"bert_large_bf16", "train:bert-large,batch=8,seq=384,steps=3,precision=bf16,attention=fused",
     13300, 0, Blocks,
     "BERT-large masked-LM training, batch 8 x 384, bf16, fused attention, 3 steps"},
    {"vit_amp", "train:vit-base,batch=32,steps=4,attention=fused", 5800, 0, None,
     "ViT-base training, 32 images of 224 x 224, bf16 autocast, AdamW, 4 steps"},
    {"vit_large_eager_amp", "train:vit-large,batch=16,steps=3,attention=eager", 9900, 0, None,
     "ViT-large training, 16 images, bf16 autocast, eager attention, 3 steps"},
    {"vit_infer",
     "infer:vit-base,precision=bf16,attention=fused,batches=64/17/1/32/64,requests=178,batch=64",
     2570, 0, Blocks, "ViT-base inference, bf16, batches of 64, 17, 1, 32 and 64 images"},
    {"t5_small_amp",
     "train:t5-small,batch=16,seq=256,target=64,steps=3,attention=fused,kv_cache=none", 7200, 0,
     None, "T5-small training, batch 16, 256 tokens in, 64 out, bf16 autocast, 3 steps"},
    {"t5_base_bf16",
     "train:t5-base,batch=8,seq=512,target=128,steps=3,precision=bf16,attention=fused,"
     "optimizer=adamw_fused",
     23800, 0, Blocks,
     "T5-base training, batch 8, 512 tokens in, 128 out, bf16, fused AdamW, KV cache kept, 3 "
     "steps"},
    {"t5_small_fp32",
     "train:t5-small,batch=8,seq=128,target=32,steps=3,precision=fp32,attention=fused,"
     "accumulate=2,kv_cache=none",
     10400, 0, None, "T5-small training, 2 micro steps of 8, 128 tokens in, 32 out, fp32, 3 steps"},
    {"mixtral_amp",
     "train:mixtral-8x7b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=3584,batch=2,seq=512,"
     "steps=3,attention=fused",
     2660, 0, None,
     "Mixtral-shaped 4 x 1024 training, 8 experts, batch 2 x 512, bf16 autocast, 3 steps"},
    {"mixtral_bf16_eager",
     "train:mixtral-8x7b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=3584,batch=4,seq=256,"
     "steps=3,precision=bf16,optimizer=adamw_fused,kv_cache=none,experts=loop,tokens_per_expert="
     "176/163/149/224/202/546/338/250/278/262/280/240/305/232/305/146/113/179/374/453/"
     "250/419/85/175/130/403/54/545/337/7/483/89/305/151/185/362/248/302/72/423/83/409"
     "/152/113/379/255/394/263/215/180/279/78/237/325/221/513/187/533/208/107/202/72/4"
     "67/272/312/175/33/483/235/362/120/328/330/436/18/417/259/215/334/39/509/53/142/5"
     "42/64/325/80/333/479/51/282/32/144/72/370/618,attention=eager",
     12700, 0, Blocks,
     "Mixtral-shaped training, experts one by one with uneven routing, bf16, 3 steps"},
    {"mixtral_generate",
     "infer:mixtral-8x7b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=3584,requests=4,batch=4,"
     "batches=4,seq=100,context_max=100,generated_max=47,lengths=lognormal,median=100000,"
     "sigma_percent=0,attention=fused",
     25800, 0, Blocks, "Mixtral-shaped generation, bf16, batch 4, prompt 100, growing KV cache"},
    {"vit_fp32_momentum",
     "train:vit-base,batch=16,steps=4,precision=fp32,optimizer=sgd_momentum,attention=fused", 6390,
     0, Blocks, "ViT-base training, 16 images, fp32, SGD with momentum, fused attention, 4 steps"},
    {"gpt2_fp16_scaler",
     "train:gpt2-124m,batch=8,seq=512,steps=4,precision=fp16_autocast,attention=fused,clip=1", 6833,
     0, None, "GPT-2 124M training, batch 8 x 512, fp16 with a GradScaler, clipping, 4 steps"},
    {"gpt2_fp16_scaler_plain",
     "train:gpt2-124m,batch=4,seq=512,steps=3,precision=fp16_autocast,optimizer=sgd_momentum,"
     "attention=eager",
     4600, 0, None,
     "GPT-2 124M training, batch 4 x 512, fp16 with a GradScaler, SGD, eager attention, 3 steps"},
    // The recorded programs make the labels of padded batches on the device, with a mask of a byte.
    {"bert_padded_amp",
     "train:bert-base,batch=16,seq=256,steps=4,attention=fused,attention_mask=padding", 6851, 4,
     None, "BERT-base masked-LM training, batch 16 x 256 with padding, bf16 autocast, 4 steps"},
    {"llama_padded_bf16",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "batch=4,seq=512,steps=3,precision=bf16,attention=fused,attention_mask=padding",
     6790, 6, Sizes,
     "Llama-shaped training, batch 4 x 512 with padding, bf16, fused attention, 3 steps"},
    {"gpt2_padded_eager_fp32",
     "train:gpt2-124m,batch=4,seq=256,steps=3,precision=fp32,attention_mask=padding,attention="
     "eager",
     4060, 3, None,
     "GPT-2 124M training, batch 4 x 256 with padding, fp32, eager attention, 3 steps"},
    {"bert_padded_infer",
     "infer:bert-base,precision=fp32,padding=1,head=words,batch=16,batches=16/5/16/2,"
     "seq=128/250/77/500,requests=78,attention=eager",
     5420, 32, Sizes,
     "BERT-base word scores, fp32, eager attention, padded batches of 16, 5, 16 and 2"},
    {"gpt2_ckpt_every2",
     "train:gpt2-124m,batch=8,seq=512,steps=3,checkpoint=full,"
     "checkpoint_every=2,kv_cache=n"
     "one,attention=eager",
     6079, 0, None, "GPT-2 124M training, every second block checkpointed, 3 steps"},
    {"gpt2_ckpt_attention",
     "train:gpt2-124m,batch=8,seq=512,steps=3,checkpoint=selective,kv_cache=none,attention=eager",
     5592, 0, None, "GPT-2 124M training, only the attention core checkpointed, 3 steps"},
    {"llama_ckpt_selective",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,b"
     "atch=2,seq=1024,attention=fused,steps=3,precision=bf16,optimizer=adamw_fused,checkpoi"
     "nt=keep_products",
     7388, 0, Sizes,
     "Llama-shaped training, matrix products and attention kept, the rest recomputed, 3 steps"},
    {"llama_ckpt_reentrant",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,batch=2,"
     "seq=1024,attention=fused,steps=3,checkpoint=full,reentrant=1",
     5116, 0, None, "Llama-shaped training, reentrant checkpoints of every block, 3 steps"},
    {"gpt2_save_resume",
     "train:gpt2-124m,batch=4,seq=256,steps=4,save_every=2,resume=device,resume_at=2,attention="
     "eager",
     7331, 0, None, "GPT-2 124M training, saved, loaded beside itself and resumed"},
    {"llama_peft_lora",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,batch=4,"
     "seq=512,steps=4,precision=bf16_weights_autocast,lora=8,lora_dropout=1,attention=fused,"
     "attention_mask=padding",
     5131, 4, None,
     "Llama-shaped LoRA of q and v by peft, frozen bf16 weights, padding, bf16 autocast, 4 steps"},
    {"gpt2_adamw_loop",
     "train:gpt2-124m,batch=4,seq=256,steps=3,precision=fp32,optimizer=adamw_loop,attention=eager",
     8509, 0, Sizes, "GPT-2 124M training, AdamW parameter by parameter, fp32, 3 steps"},
    {"gpt2_momentum_loop",
     "train:gpt2-124m,batch=4,seq=256,steps=3,precision=fp32,optimizer=sgd_momentum,zero_gr"
     "ad=zeros,attention=eager",
     3443, 0, None,
     "GPT-2 124M training, SGD with momentum parameter by parameter, gradients kept, 3 steps"},
    {"gpt2_clip_eval",
     "train:gpt2-124m,batch=4,seq=512,steps=4,clip=1,eval_every=2,eval_batches=2,eval_batch"
     "=8,eval_autocast=loop,attention=eager",
     9293, 0, None, "GPT-2 124M training with clipping and evaluation after every second step"},
    {"gpt2_leak_eval",
     "train:gpt2-124m,batch=2,seq=256,steps=0,eval_every=1,eval_batches=6,eval_grad=1,keep_"
     "eval_losses=1,attention=eager",
     3342, 0, None, "GPT-2 124M evaluation without no_grad, losses and their graphs kept"},
    {"ddp_gpt2_amp", "train:gpt2-124m,batch=4,seq=512,steps=4,kv_cache=none,dp=2,attention=eager",
     6794, 0, None, "GPT-2 124M under DistributedDataParallel, rank 0 of 2, 4 steps"},
    {"ddp_view_gpt2_fp32",
     "train:gpt2-124m,batch=4,seq=256,steps=3,kv_cache=none,dp=2,bucket_view=1,no_sync=1,ac"
     "cumulate=2,precision=fp32,attention=eager",
     7262, 0, None, "the same with gradients as views of buckets, no_sync and accumulation, fp32"},
    {"zero1_gpt2_amp",
     "train:gpt2-124m,batch=4,seq=512,steps=3,kv_cache=none,dp=2,zero=1,sharder=torch,attention="
     "eager",
     4743, 0, None, "GPT-2 124M under ZeroRedundancyOptimizer, rank 0 of 2, 3 steps"},
    {"fsdp2_llama_bf16",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,b"
     "atch=2,seq=1024,attention=fused,steps=4,precision=fp32,gathered=bf16,kv_cache=none,dp"
     "=2,fsdp=2,initialize=whole",
     5296, 0, None, "Llama-shaped under fully_shard (FSDP2), rank 0 of 2, 4 steps"},
    {"fsdp2_llama_ckpt",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,b"
     "atch=2,seq=1024,attention=fused,steps=3,precision=fp32,gathered=bf16,checkpoint=full,"
     "dp=2,fsdp=2,initialize=whole,optimizer=adamw_fused",
     4858, 0, None, "the same with checkpoints and fused AdamW, 3 steps"},
    {"fsdp1_gpt2_bf16",
     "train:gpt2-124m,batch=4,seq=512,steps=3,precision=fp32,gathered=bf16,kv_cache=none,dp"
     "=2,fsdp=1,initialize=whole,attention=eager",
     8155, 0, Sizes, "GPT-2 124M under FullyShardedDataParallel, rank 0 of 2, 3 steps"},
    {"gpt2_beam",
     "infer:gpt2-124m,requests=8,batch=4,beams=4,batches=4/4,seq=64/40,context_max=64,"
     "generated_max=31,lengths=lognormal,median=100000,sigma_percent=0,attention=fused,events="
     "30003",
     15108, 0, None, "GPT-2 124M beam search, 4 beams, batch 4, prompts 64 and 40"},
    {"llama_sample_padded",
     "infer:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "requests=8,batch=4,batches=4/4,seq=120/300,context_max=300,generated_max=39,"
     "lengths=lognormal,median=100000,sigma_percent=0,attention=fused,padding=1,sample=1,"
     "events=30079",
     29980, 3, Sizes, "Llama-shaped sampling of left-padded batches of 4, prompts 120 and 300"},
    {"llama_static_cache",
     "infer:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "requests=4,batch=4,batches=4,seq=200,context_max=200,generated_max=31,"
     "lengths=lognormal,median=100000,sigma_percent=0,attention=fused,kv=preallocated",
     14096, 2, None, "Llama-shaped generation with a preallocated cache, batch 4, prompt 200"},
    {"bert_embed_fp16",
     "infer:bert-base,batches=32/32/7/32/1/16,seq=128/64/200/33/12/512,requests=240,batch=32,"
     "attention=fused,padding=1,embeddings=1",
     7275, 48, Sizes, "sentence embeddings by BERT-base, fp16, padded batches, mean pooling"},
    {"t5_generate",
     "infer:t5-small,batch=8,requests=8,batches=8,seq=128,context_max=128,generated_max=47,"
     "lengths=lognormal,median=100000,sigma_percent=0,attention=fused,events=30002",
     15087, 0, None, "T5-small generation, bf16, batch 8, 128 tokens in, growing KV caches"},
    {"qwen2_bf16",
     "train:qwen2.5-0.5b,layers=8,batch=2,seq=512,steps=3,precision=bf16,optimizer=adamw_fused",
     3511, 0, None, "Qwen2.5-shaped 8 x 896 training, batch 2 x 512, bf16, fused AdamW, 3 steps"},
    {"qwen3_ckpt_amp", "train:qwen3-0.6b,layers=6,batch=2,seq=1024,steps=3,checkpoint=full", 5068,
     0, None, "Qwen3-shaped 6 x 1024 training, checkpoints, bf16 autocast, AdamW, 3 steps"},
    {"qwen2_lora", "train:qwen2.5-0.5b,layers=8,batch=2,seq=512,steps=4,precision=bf16,lora=16",
     4467, 0, None, "Qwen2.5-shaped LoRA of rank 16 on q and v by peft, bf16, 4 steps"},
    {"llama_ckpt_varlen",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,batch=2,"
     "seq=300/700/500/1000/200/"
     "900,accumulate=2,steps=3,precision=bf16,checkpoint=full,optimizer=adamw_fused",
     7828, 0, None,
     "Llama-shaped training, checkpoints, 2 micro steps of varying length, bf16, 3 steps"},
    {"gpt2_sdpa_fp32",
     "train:gpt2-124m,batch=4,seq=384,steps=3,precision=fp32,optimizer=sgd_momentum", 5881, 0,
     Blocks,
     "GPT-2 124M training, batch 4 x 384, fp32, fused attention, SGD with momentum, 3 steps"},
    {"mixtral_pairs_bf16",
     "train:mixtral-8x7b,layers=3,hidden=1024,heads=16,kv_heads=4,ffn=3584,batch=4,seq=512,steps=3,"
     "precision=bf16,kv_cache=none",
     4082, 0, Blocks, "Mixtral-shaped 3 x 1024 training, batch 4 x 512, bf16, AdamW, 3 steps"},
    {"t5_targets_bf16",
     "train:t5-small,batch=8,seq=100,target=40/90/60,steps=6,precision=bf16,kv_cache=none", 25086,
     0, Blocks, "T5-small training, 100 tokens in, 40, 90 and 60 out in turn, bf16, 6 steps"},
    {"gpt2_offload",
     "train:gpt2-124m,batch=4,seq=512,steps=3,precision=bf16,kv_cache=none,offload=gradients", 2827,
     0, None, "GPT-2 124M training, optimizer and gradients on the host, bf16, 3 steps"},
    {"llama_chunked_loss",
     "train:llama-3-8b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=2816,batch=2,seq=1024,steps=3,"
     "precision=bf16,kv_cache=none,optimizer=adamw_fused,loss_chunks=8",
     2041, 0, None,
     "Llama-shaped 4 x 1024 training, 128,256 words, loss in 8 checkpointed chunks, 3 steps"},
    {"timm_vit_amp", "train:vit-base,batch=32,steps=4,implementation=timm", 4751, 0, None,
     "ViT-base as timm writes it, 32 images, bf16 autocast, AdamW, 4 steps"},
    {"dit_s2_amp", "train:dit-s,batch=32,steps=3", 5119, 0, None,
     "diffusion transformer DiT-S/2, batch 32, bf16 autocast, AdamW, 3 steps"},
    {"dit_b4_fp32", "train:dit-b,patch=4,batch=16,steps=3,precision=fp32,optimizer=adamw_fused",
     3603, 0, None, "diffusion transformer DiT-B/4, batch 16, fp32, fused AdamW, 3 steps"},
    {"llama_int8_generate",
     "infer:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000"
     ",requests=4,batch=4,seq=200,answers=24,quantize=int8",
     24105, 0, Blocks,
     "Llama-shaped generation, weights in 8 bits made whole for every product, batch 4"},
    {"llama_int4_generate",
     "infer:llama-3-8b,layers=6,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000"
     ",requests=2,batch=1,seq=300/77,answers=16,quantize=int4,events=30003",
     15068, 0, None, "Llama-shaped generation, weights in 4 bits, batch 1, prompts 300 and 77"},
    {"llama_fp8",
     "train:llama-3-8b,layers=6,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000"
     ",batch=2,seq=1024,steps=3,precision=bf16,kv_cache=none,optimizer=adamw_fused"
     ",products=fp8",
     12325, 0, Blocks,
     "Llama-shaped 6 x 2048 training, products in float8, bf16, fused AdamW, 3 steps"},
    {"llava_frozen_bf16",
     "train:llama-3-8b,layers=6,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000"
     ",batch=4,seq=512,steps=3,precision=bf16,kv_cache=none,optimizer=adamw_fused"
     ",vision=vit-base",
     3431, 0, None,
     "LLaVA training behind a frozen ViT, batch 4 x 512 with an image, bf16, 3 steps"},
    {"llava_whole_amp",
     "train:llama-3-8b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000"
     ",batch=2,seq=400,steps=3,kv_cache=none,vision=vit-base,vision_frozen=0",
     6151, 0, None,
     "LLaVA training, ViT and Llama, batch 2 x 400 with an image, bf16 autocast, 3 steps"},
    {"llava_generate",
     "infer:llama-3-8b,layers=6,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000"
     ",requests=8,batch=4,seq=300/240,answers=16,vision=vit-base",
     10513, 0, None, "LLaVA generation, bf16, batch 4, prompts 300 and 240 with an image"},
    {"cp2_llama_bf16",
     "train:llama-3-8b,layers=8,hidden=1536,heads=12,kv_heads=4,ffn=4096,vocabulary=32000,batch=2,"
     "seq=2048,steps=4,precision=fp32,gathered=bf16,kv_cache=none,cp=2,initialize=whole",
     6856, 0, None, "Llama-shaped 8 x 1536 under context_parallel(), rank 0 of 2, 4 steps"},
    {"cp2_gpt2_fp32",
     "train:gpt2-124m,batch=4,seq=1024,steps=3,precision=fp32,attention_mask=ones,kv_cache=none,"
     "cp=2,initialize=whole",
     6439, 0, None, "GPT-2 124M under context_parallel(), rank 0 of 2, fp32, 3 steps"},
    {"cp4_qwen3_bf16",
     "train:qwen3-0.6b,layers=6,batch=1,seq=4096,steps=3,precision=bf16,checkpoint=full,optimizer="
     "adamw_fused,cp=4,rotate=alltoall,initialize=whole",
     7943, 0, None,
     "Qwen3-shaped 6 x 1024 under context_parallel(), rank 0 of 4, checkpoints, bf16, 3 steps"},
    // cuDNN chooses whether convolutions take a workspace, and how large.
    {"unet_fp32",
     "unet:channels=128/256/256,attention=0/1/0,image=64,batch=16,steps=3,precision=fp32", 5829,
     768, NoWorkspaces, "a denoising UNet of 128, 256 and 256 channels, 16 images, fp32, 3 steps"},
    {"unet_amp", "unet:channels=64/128/256/256,attention=0/0/1/0,image=128,batch=8,steps=3", 9324,
     876, NoWorkspaces, "a denoising UNet of 64 to 256 channels, 8 images, bf16 autocast, 3 steps"},
    {"unet_wide_amp", "unet:channels=192/384/768,attention=0/0/1,image=64,batch=4,steps=3", 7548,
     774, NoWorkspaces,
     "a denoising UNet of 192 to 768 channels, 4 images, bf16 autocast, 3 steps"},
    {"unet_small_fp32",
     "unet:channels=64/128,attention=0/1,image=32,batch=32,steps=3,precision=fp32", 4512, 432,
     NoWorkspaces, "a denoising UNet of 64 and 128 channels, 32 images, fp32, 3 steps"},
    // How often kernels are timed in the first step depends on time: compiled_test holds the
    // others.
    {"gpt2_compiled",
     "train:gpt2-124m,layers=4,batch=4,seq=512,steps=4,kv_cache=none,compile=inductor", 53, 0, None,
     "GPT-2 of 4 blocks under torch.compile, batch 4 x 512, bf16 autocast, 4 steps"},
    // Tensors of a few bytes differ from the first guess on: held by its distances alone.
    {"llama_assisted",
     "infer:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "requests=1,batch=1,seq=100,context_max=100,generated_max=48,lengths=lognormal,median=100000,"
     "sigma_percent=0,attention=fused,draft=llama-3-8b,draft_layers=2,draft_hidden=512,"
     "draft_heads=8,draft_kv_heads=4,draft_ffn=1408,accept_percent=0,events=29500",
     90, 0, None, "Llama-shaped generation with a draft model, batch 1, prompt 100"},
});

}  // namespace

std::span<const Reference> references() { return kReferences; }

const Reference& find_reference(std::string_view recording) {
  std::vector<std::string> names;
  for (const Reference& reference : kReferences) {
    if (reference.recording == recording) return reference;
    names.emplace_back(reference.recording);
  }
  throw UsageError({
      .what = "no workload is known for this recording",
      .wanted = "a recording that a generator has a like of",
      .got = std::string(recording),
      .next = nearest_names(recording, names).empty() ? "give its workload with --workload"
                                                      : suggest(recording, names),
  });
}

}  // namespace allocmark
