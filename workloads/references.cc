#include "workloads/references.h"

#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace allocmark {
namespace {

constexpr auto kReferences = std::to_array<Reference>({
    // The two oldest GPT-2 programs divide each loss by 1: 4 bytes forward and backward.
    {"gpt2_train_amp", "train:gpt2-124m,batch=8,seq=1024,steps=4", 6803, 8, false},
    {"gpt2_train_ckpt", "train:gpt2-124m,batch=8,seq=1024,steps=4,checkpoint=full", 9092, 8, false},
    {"llama_lora_varlen_accum",
     "train:llama-2-7b,layers=8,hidden=1536,heads=16,ffn=4096,batch=2,steps=3,accumulate=4,"
     "seq=167/412/127/351/552/557/844/542/291/"
     "249,precision=bf16,checkpoint=full,lora=16,events=30000",
     29000, 0, true},
    {"bert_varlen_infer",
     "infer:bert-base,precision=fp32,requests=340,batch=16,"
     "batches=8/1/8/16/4/2/16/2/8/4/16/4/2/4/4/16/8/16/1/2/2/8/16/4/4/16/8/8/1/4/8/4"
     "/4/2/2/8/1/16/2/8/2/4/4/8/8/4/8/2/8/16/2/4/2,"
     "seq=267/86/368/314/246/115/411/169/245/71/351/345/72/309/437/228/240/270/250/200"
     "/160/291/221/220/125/170/204/351/149/176/126/209/216/117/218/347/124/264/119/261"
     "/281/145/184/411/429/133/199/83/222/512/172/308/460",
     29990, 0, true},
    {"gpt2_medium_amp", "train:gpt2-355m,batch=4,seq=1024,steps=3", 10212, 0, false},
    {"gpt2_bf16_sgd",
     "train:gpt2-124m,batch=8,seq=512,steps=4,precision=bf16,optimizer=sgd,attention=fused", 7700,
     0, true},
    {"gpt2_accum_fp32",
     "train:gpt2-124m,batch=4,seq=256,steps=2,accumulate=3,precision=fp32,kv_cache=none", 7091, 0,
     false},
    {"bert_mlm_fp32", "train:bert-base,batch=16,seq=128,steps=4,precision=fp32,attention_mask=ones",
     10300, 0, true},
    {"llama_bf16_fused",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "batch=4,seq=1024,steps=4,precision=bf16,optimizer=adamw_fused,attention=fused",
     8100, 0, true},
    {"llama_eager_amp",
     "train:llama-3-8b,layers=6,hidden=1024,heads=16,kv_heads=4,ffn=2816,vocabulary=32000,"
     "batch=4,seq=512,steps=3,kv_cache=none",
     6200, 0, true},
    {"llama_ckpt_amp",
     "train:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "batch=2,seq=2048,steps=3,checkpoint=full,attention=fused",
     5110, 0, false},
    {"gpt2_generate",
     "infer:gpt2-124m,requests=8,batch=8,batches=8,seq=64,context_max=64,generated_max=63,"
     "lengths=lognormal,median=100000,sigma_percent=0,attention=fused,events=30002",
     29990, 0, true},
    {"llama_generate",
     "infer:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "requests=4,batch=4,batches=4,seq=200,context_max=200,generated_max=127,"
     "lengths=lognormal,median=100000,sigma_percent=0,attention=fused,events=30002",
     29990, 0, true},
    {"gpt2_large_amp",
     "train:gpt2-774m,batch=2,seq=512,steps=2,optimizer=adamw_fused,attention=fused,kv_cache=none",
     8900, 0, false},
    {"bert_large_bf16", "train:bert-large,batch=8,seq=384,steps=3,precision=bf16,attention=fused",
     13300, 0, true},
    {"vit_amp", "train:vit-base,batch=32,steps=4,attention=fused", 5800, 0, false},
    {"vit_large_eager_amp", "train:vit-large,batch=16,steps=3", 9900, 0, false},
    {"vit_infer",
     "infer:vit-base,precision=bf16,attention=fused,batches=64/17/1/32/64,requests=178,batch=64",
     2570, 0, true},
    {"t5_small_amp",
     "train:t5-small,batch=16,seq=256,target=64,steps=3,attention=fused,kv_cache=none", 7200, 0,
     false},
    {"t5_base_bf16",
     "train:t5-base,batch=8,seq=512,target=128,steps=3,precision=bf16,attention=fused,"
     "optimizer=adamw_fused",
     23800, 0, true},
    {"t5_small_fp32",
     "train:t5-small,batch=8,seq=128,target=32,steps=3,precision=fp32,attention=fused,"
     "accumulate=2,kv_cache=none",
     10400, 0, false},
    {"mixtral_amp",
     "train:mixtral-8x7b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=3584,batch=2,seq=512,"
     "steps=3,attention=fused",
     2660, 0, false},
    {"mixtral_bf16_eager",
     "train:mixtral-8x7b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=3584,batch=4,seq=256,"
     "steps=3,precision=bf16,optimizer=adamw_fused,kv_cache=none,experts=loop,tokens_per_expert="
     "176/163/149/224/202/546/338/250/278/262/280/240/305/232/305/146/113/179/374/453/"
     "250/419/85/175/130/403/54/545/337/7/483/89/305/151/185/362/248/302/72/423/83/409"
     "/152/113/379/255/394/263/215/180/279/78/237/325/221/513/187/533/208/107/202/72/4"
     "67/272/312/175/33/483/235/362/120/328/330/436/18/417/259/215/334/39/509/53/142/5"
     "42/64/325/80/333/479/51/282/32/144/72/370/618",
     12700, 0, true},
    {"mixtral_generate",
     "infer:mixtral-8x7b,layers=4,hidden=1024,heads=16,kv_heads=4,ffn=3584,requests=4,batch=4,"
     "batches=4,seq=100,context_max=100,generated_max=47,lengths=lognormal,median=100000,"
     "sigma_percent=0,attention=fused",
     25800, 0, true},
    {"gpt2_beam",
     "infer:gpt2-124m,requests=8,batch=4,beams=4,batches=4/4,seq=64/40,context_max=64,"
     "generated_max=31,lengths=lognormal,median=100000,sigma_percent=0,attention=fused,events="
     "30150",
     27000, 0, true},
    {"llama_sample_padded",
     "infer:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "requests=8,batch=4,batches=4/4,seq=120/300,context_max=300,generated_max=39,"
     "lengths=lognormal,median=100000,sigma_percent=0,attention=fused,padding=1,sample=1,"
     "events=30079",
     29980, 3, true},
    {"llama_static_cache",
     "infer:llama-3-8b,layers=8,hidden=2048,heads=16,kv_heads=4,ffn=5632,vocabulary=32000,"
     "requests=4,batch=4,batches=4,seq=200,context_max=200,generated_max=31,"
     "lengths=lognormal,median=100000,sigma_percent=0,attention=fused,kv=preallocated",
     14096, 2, false},
    {"bert_embed_fp16",
     "infer:bert-base,batches=32/32/7/32/1/16,seq=128/64/200/33/12/512,requests=240,batch=32,"
     "attention=fused,padding=1,embeddings=1",
     7275, 48, true},
});

}  // namespace

std::span<const Reference> references() { return kReferences; }

const Reference& find_reference(std::string_view recording) {
  std::vector<std::string> names;
  for (const Reference& reference : kReferences) {
    if (reference.recording == recording) return reference;
    names.emplace_back(reference.recording);
  }
  throw UsageError({.what = "no workload is known for this recording",
                    .where = "",
                    .wanted = "a recording that a generator has a like of",
                    .got = std::string(recording),
                    .next = suggest(recording, names)});
}

}  // namespace allocmark
