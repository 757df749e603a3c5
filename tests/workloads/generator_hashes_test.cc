// Goal: the same text and seed give the same bytes on every machine. Method: golden hashes, which
// were also computed apart in Python from the written files.

#include "tests/catch.h"
#include "tests/support/trace_goldens.h"

using namespace allocmark;

TEST_CASE("the same text and seed give the same bytes") {
  const TraceGolden goldens[] = {
      {"train:gpt2-124m,batch=2,seq=128,steps=2,attention=eager", 0x0d8494a852efea7cu, 6806,
       2556955652},
      {"train:gpt2-124m,batch=2,seq=128,steps=1,checkpoint=full,kernels=1,attention=eager",
       0x70f5cbb82cc24982u, 7289, 2558004228},
      {"train:bert-base,batch=2,seq=64,steps=1,precision=fp32,optimizer=sgd,attention=eager",
       0x12711c94ec1e7fd1u, 2139, 1131808216},
      {"train:llama-2-7b,batch=1,seq=256,steps=1,precision=bf16,attention=fused",
       0x33a64dbaa9ff6eb1u, 9479, 67451267332},
      {"train:llama-3-8b,batch=1,seq=256,steps=1,attention=eager", 0x185bc22927979d68u, 11925,
       160672336388},
      {"infer:gpt2-124m,requests=6,batch=2,generated_max=20,attention=eager", 0x339af071fe34e445u,
       49241, 369498664},
      {"infer:llama-3-8b,requests=4,batch=2,lengths=code,kv=preallocated,generated_max=8,attention="
       "eager",
       0x5cbb0638bb659af9u, 58932, 54432526568},
      {"infer:bert-base,requests=20,batch=8,arrival=random,lengths=lognormal,precision=fp32,"
       "attention=eager",
       0xa31f45fef7205ee9u, 2724, 584733376},
      {"infer:llama-2-7b,requests=2,kv=paged,attention=fused,generated_max=4,kernels=1",
       0xa432c59f9e5aab43u, 22313, 82510540072},
      {"train:vit-huge,batch=2,steps=2,attention=eager", 0xba0be18243f6aaf9u, 17798, 12710277684},
      {"train:vit-base,batch=4,image=64,patch=8,classes=10,precision=bf16,checkpoint=full,"
       "steps=2,attention=eager",
       0xf2291be60c40e237u, 6304, 921930374},
      {"train:t5-3b,batch=2,seq=100,target=30,steps=1,attention=eager", 0x243df947b345430eu, 19827,
       57099077668},
      {"train:t5-base,batch=2,seq=100/60,target=30,steps=2,attention=fused,checkpoint=full",
       0x25e8bfdf7d91f2d7u, 26474, 4525325988},
      {"train:mixtral-8x7b,layers=2,batch=1,seq=300,steps=2,experts=loop,skew_percent=90,attention="
       "eager",
       0xb948630fc7d6d78du, 4890, 63360879460},
      {"train:mixtral-8x22b,layers=2,batch=1,seq=128,steps=1,precision=bf16,attention=fused",
       0x76dc84aa0a11039fu, 1027, 54174921988},
      {"infer:mixtral-8x7b,layers=3,requests=3,batch=2,context_max=50,generated_max=5,attention="
       "eager",
       0xfc11ad56614d78f5u, 6190, 10676592084},
      {"infer:vit-large,requests=10,batch=4,arrival=random,attention=eager", 0xb5f7bf2b238ca357u,
       6453, 678981200},
      {"churn:events=20000", 0x8d0ab9090ad35085u, 20000, 4362055102},
      {"churn:events=20000,streams=3,record_percent=10,live_bytes=1GiB", 0x5eebfee04a03632eu, 20000,
       1140786337},
      {"comb:count=100,rounds=3", 0xe14a8a5cc32ea11bu, 609, 641728512},
      {"sawtooth:teeth=3,sync=1,order=oldest", 0xb0bfc42f9e15196eu, 454, 4294967296},
      {"growing:count=3,rounds=2,size_max=20MiB,growth_percent=5", 0x6f47649de3bdfa10u, 242,
       82837504},
      {"robson:live_bytes=64MiB,size_max=16MiB,rounds=2", 0x69c06a58a39fbf1du, 192, 67108864},
      {"slivers:count=10", 0xcfafe94d49be01cau, 354, 671088640},
      {"boundaries:rounds=3", 0x901fc9f9bce952e9u, 1353, 402654720},
      {"offload:optimizer,library=fsdp,layers=2,steps=2", 0x9b61306125b748b3u, 633, 1050673152},
      {"offload:optimizer,library=torchao,layers=2,steps=2", 0x22eff9cecd52fb9au, 393, 1293963264},
      {"offload:optimizer,library=deepspeed,layers=2,steps=2,ranks=3", 0x38108d03ece447b6u, 245,
       1118851072},
      {"offload:checkpoint,layers=2,staging=fresh", 0x1c8246b61c2329e8u, 851, 4611760128},
      {"offload:loader,spread_percent=30,batches=20", 0x78fa39e8d410d514u, 302, 365317318},
      {"offload:kv_cache,layout=chunks,requests=50", 0x418e98d2c247db1du, 2051, 529924096},
      {"offload:weights,layers=3,tensor_mib=96/36,tensor_count=3/2", 0x6466762d048d5cecu, 191,
       754974720},
      {"producer:items=1200,consumers=3,fan_out=2,busy=1,sync_every=7", 0x103e72ec383fc063u, 8574,
       201326592},
      {"litter:fill_bytes=100MiB,rounds=2", 0x698d5b8ba0b5dc5eu, 103, 104857600},
      {"oom_edge:level_bytes=1GiB,over_bytes=5MiB,turns=9", 0x193946690e19ee2cu, 178, 1078984704},
      {"litter:fill_bytes=10MiB then growing:count=2,size_max=9MiB", 0xfb69e5e2821986a3u, 91,
       27262976},
      {"serve:bert-base,requests=20", 0xcdd84681587fb2a3u, 11990, 262234624},
      {"load:layers=4", 0xf9e1ec7f9eac2e8eu, 62, 4534042624},
      {"colocate:llama-3-8b,layers=2,cycles=1,steps=1,requests=4", 0xe8789b7d27740213u, 6927,
       29805150724},
      {"unet:channels=64/128,attention=0/1,image=16,batch=2,steps=2", 0x1d1643f013b875c4u, 7986,
       148025420},
      {"unet:channels=64/128/"
       "64,blocks=1,image=8,batch=2,steps=1,precision=fp32,optimizer=sgd,kernels=1",
       0xd5070543e6ab8f1cu, 3049, 91581484},
      {"train:llama-3-8b,layers=2,batch=1,seq=256,steps=2,precision=bf16,products=fp8",
       0xd0b49679cee30ae9u, 2986, 14938220804},
      {"train:llama-3-8b,layers=2,hidden=1024,heads=16,kv_heads=4,ffn=2816,batch=2,seq=300/"
       "250,steps=2,vision=vit-base,vision_frozen=0",
       0x7b3d71899c6381a4u, 7456, 7415368644},
      {"train:gpt2-124m,layers=2,batch=2,seq=100,steps=2,kv_cache=none,compile=inductor",
       0x1a066ccb3817456du, 3664, 1177448664},
      {"infer:llama-3-8b,layers=2,requests=2,batch=2,seq=200,answers=3,vision=vit-base",
       0x5a6308a04ba271ddu, 1815, 3275868344},
      {"infer:llama-3-8b,layers=2,requests=3,batch=2,seq=20/9,answers=4,quantize=int4",
       0xebe06fee2cfa3e3du, 3658, 2597549608},
      {"train:llama-3-8b,layers=2,batch=2,seq=256,steps=2,precision=bf16,cp=4,rank=1",
       0x4bc3d289b8fd18e5u, 2298, 7373784660},
      {"train:gpt2-124m,layers=3,batch=1,seq=384,steps=2,precision=fp32,attention_mask=ones,cp=2,"
       "dp=2,rank=3,rotate=alltoall,eval_every=1",
       0xee61c99a34ef3e0eu, 5160, 923603472},
      {"pause:leftovers=50", 0x3dce783aac1cbe7bu, 53, 417583608},
      {"producer:items=99 beside litter:fill_bytes=10MiB then comb:count=4 beside gpt2_train_amp",
       0x3600d38813a983acu, 14144, 21743215112},
  };
  check_goldens(goldens);
}
