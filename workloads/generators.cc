#include "workloads/generators.h"

#include <array>

namespace allocmark {
namespace {

constexpr std::array<GeneratorEntry, 8> kGenerators = {{
    {"train", "train:gpt2-124m,batch=8,seq=1024,steps=4",
     "transformer training steps as eager PyTorch allocates them: autocast, checkpointing, AdamW",
     make_train},
    {"infer", "infer:llama-3-8b,requests=64,batch=8,lengths=conv,kv=concat",
     "variable-length inference: padded prompts, then token by token with a growing KV cache",
     make_infer},
    {"serve", "serve:llama-3-8b,requests=64,arrivals=gamma,cv_percent=300,kv=paged",
     "a server under open-loop arrivals: continuous batching, chunked prompts, beam search, draft "
     "models; embeddings with BERT",
     make_serve},
    {"load", "load:layers=64,first_bytes=530MiB,second_bytes=270MiB,copies=2,pool_bytes=16GiB",
     "weights are loaded and converted one by one, then a pool takes what it can: holes that no "
     "later weight fits",
     make_load},
    {"colocate", "colocate:llama-3-8b,layers=8,cycles=3,steps=2,requests=32,sleep=both",
     "reinforcement learning on one device: training, weights put to sleep, answers generated, "
     "weights woken",
     make_colocate},
    {"pause", "pause:empty_cache=1,leftovers=2000",
     "between two jobs in one process: waits, gives cached memory back, leaves blocks behind",
     make_pause},
    {"churn", "churn:live_bytes=4GiB,streams=2,events=1000000",
     "random sizes and lifetimes at a steady number of live bytes; any length", make_churn},
    {"comb", "comb:size_bytes=2MiB,count=512,ask_bytes=512MiB",
     "allocates many blocks, frees every other one, asks for a big one: fragmentation at its "
     "purest",
     make_comb},
}};

}  // namespace

std::span<const GeneratorEntry> generators() { return kGenerators; }

}  // namespace allocmark
