#include "workloads/generators.h"

#include <array>

namespace allocmark {
namespace {

constexpr auto kGenerators = std::to_array<GeneratorEntry>({
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
    {"sawtooth", "sawtooth:peak_bytes=4GiB,floor_bytes=512MiB,order=random,teeth=20",
     "live bytes climb to a peak and fall back, again and again: what a cache keeps of the peak",
     make_sawtooth},
    {"growing", "growing:size_min=1MiB,size_max=512MiB,step_bytes=1MiB,count=8,rounds=2",
     "buffers replaced by larger ones: every freed block is too small for the next request",
     make_growing},
    {"robson", "robson:live_bytes=4GiB,size_min=2MiB,size_max=512MiB",
     "fills with one size, frees every other block, doubles the size: the worst case for first fit",
     make_robson},
    {"slivers", "slivers:size_bytes=64MiB,count=64,sliver_bytes=4MiB,rounds=8",
     "blocks replaced by slightly smaller ones, with pins in what is left: the case against best "
     "fit",
     make_slivers},
    {"boundaries", "boundaries:max_split_bytes=128MiB,rounds=100",
     "sizes on and beside every threshold of PyTorch's rounding, splitting and max_split rules",
     make_boundaries},
    {"producer", "producer:items=10000,consumers=2,depth=2,size_min=1MiB,size_max=64MiB",
     "buffers made on one stream, recorded on others and let go while they are still read",
     make_producer},
    {"litter", "litter:fill_bytes=4GiB,keep_percent=5,rounds=3",
     "fills memory and frees most of it at random: a heap with a history, to put before a workload",
     make_litter},
    {"oom_edge", "oom_edge:level_bytes=8GiB,swing_percent=10,turns=100",
     "climbs to a level and hovers there to the last byte: how near to the edge one can live",
     make_oom_edge},
});

}  // namespace

std::span<const GeneratorEntry> generators() { return kGenerators; }

}  // namespace allocmark
