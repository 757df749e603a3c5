// Summaries against numbers computed apart (a few lines of Python over the files), and the recorded
// traces' validity.
#include "workloads/trace/summary.h"

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/data_folder.h"
#include "workloads/trace/trace_reader.h"

using namespace allocmark;

namespace {

std::uint64_t count_of(const TraceSummary& summary, EventKind kind) {
  return summary.kind_counts[static_cast<std::size_t>(kind)];
}

}  // namespace

TEST_CASE("a small trace is summarised as counted by hand") {
  const TemporaryFolder folder;
  const std::unique_ptr<EventSource> source =
      open_trace_file(folder.write("t.csv",
                                   "op,id,size,stream,tensor\n"
                                   "alloc,1,512,0,gradient\n"
                                   "alloc,2,1023,1,\n"
                                   "alloc,3,0,0,\n"
                                   "free,1,0,0,\n"
                                   "alloc,4,511,0,gradient\n"
                                   "mark,a,0,0,\n"
                                   "record,2,0,3,\n"
                                   "free,2,0,0,\n"));
  const TraceSummary summary = summarize(*source);
  CHECK(summary.event_count == 8);
  CHECK(count_of(summary, EventKind::Alloc) == 4);
  CHECK(count_of(summary, EventKind::Free) == 2);
  CHECK(summary.requested_bytes_total == 2046);
  CHECK(summary.requested_bytes_peak == 1535);
  CHECK(summary.peak_event_index == 1);
  CHECK(summary.live_count_peak == 3);
  CHECK(summary.leftover_count == 2);
  CHECK(summary.leftover_bytes == 511);
  CHECK(summary.zero_size_count == 1);
  CHECK(summary.largest_bytes == 1023);
  CHECK(summary.size_octave_counts[8] == 1);
  CHECK(summary.size_octave_counts[9] == 2);
  CHECK(summary.lifetime_octave_counts[1] == 1);  // block 1: 3 events
  CHECK(summary.lifetime_octave_counts[2] == 1);  // block 2: 6 events
  CHECK(summary.tensor_counts[static_cast<std::size_t>(TensorKind::Gradient)] == 2);
  CHECK(summary.tensor_bytes_peak[static_cast<std::size_t>(TensorKind::Gradient)] == 512);
  CHECK(summary.stream_count == 4);
  CHECK(summary.label_count == 1);
  const std::string text = to_text(summary);
  CHECK(mentions(text, "note                 1 allocs of 0 bytes"));
  CHECK(mentions(text, "requested at peak    1.50 KiB (1535 B) at event 1"));
}

TEST_CASE("every recorded trace is valid and has the pinned numbers") {
  struct Pinned {
    std::string name;
    std::uint64_t events, allocs, frees, total, peak, peak_index, left, left_bytes, streams, hash;
  };
  const Pinned pinned[] = {
      {"bert_varlen_infer", 30000, 15104, 14893, 126011390776, 1001088000, 28304, 211, 509818560, 1,
       0x36d95c60ef84b1b0},
      {"fuzz_1", 30000, 15135, 14841, 371406525321, 8550420569, 20390, 294, 6076508091, 1,
       0x7de1c52cb89222cf},
      {"fuzz_r1", 30000, 14936, 14595, 374720051562, 8438011267, 16098, 341, 6979905350, 3,
       0x3d2568f9f06ed42c},
      {"fuzz_s1", 30000, 15116, 14871, 375411204639, 8430284266, 27976, 245, 5123425346, 3,
       0x2f608a080b784f9a},
      {"gpt2_train_amp", 13609, 6803, 6800, 368981200292, 21743215112, 4524, 3, 68157440, 1,
       0xb65d6ce26d49a30d},
      {"gpt2_train_ckpt", 18186, 9092, 9088, 510397050824, 6959866376, 5984, 4, 69206016, 1,
       0x00bde5a3a9badf20},
      {"llama_lora_varlen_accum", 30000, 15110, 14886, 72867445516, 1432584840, 20745, 224,
       754568864, 1, 0xdb4ff8d03d7af1d2},
      {"bert_mlm_fp32", 10937, 5467, 5464, 35839639772, 3751382720, 3547, 3, 68157440, 1,
       0xe9ac773566bddf30},
      {"gpt2_accum_fp32", 14183, 7091, 7088, 50428757174, 4099622924, 9704, 3, 68157440, 1,
       0x7cc579a9641d6480},
      {"gpt2_bf16_sgd", 7873, 3935, 3932, 62159282692, 5146634952, 2555, 3, 68157440, 1,
       0x39c5bfb2d8de5452},
      {"gpt2_generate", 30002, 15097, 14903, 2237383704, 319674968, 771, 194, 316802616, 1,
       0x461c7fb052c16cce},
      {"gpt2_medium_amp", 20426, 10212, 10209, 360987109523, 27465512968, 8836, 3, 68157440, 1,
       0x1adb69c71d56a61b},
      {"llama_bf16_fused", 8444, 4220, 4218, 80507043120, 7546598068, 2868, 2, 67108864, 1,
       0x22b2e4a6eaa2dfd7},
      {"llama_ckpt_amp", 10223, 5110, 5108, 107211571452, 9903481348, 3332, 2, 67108864, 1,
       0x264ea41122e61290},
      {"llama_eager_amp", 6467, 3232, 3230, 30860445635, 3982512392, 2812, 2, 67108864, 1,
       0x41fedad61bff71db},
      {"llama_generate", 30002, 15058, 14942, 2859615364, 1070871864, 798, 116, 1033395672, 1,
       0x4cc79efe97070c8b},
      {"t5_small_amp", 15043, 7520, 7518, 29119080721, 2844665964, 6607, 2, 67108864, 1,
       0x13219b60e1ba0c64},
      {"vit_amp", 12289, 6143, 6140, 49395963120, 3776925864, 4019, 3, 68157440, 1,
       0xc5b0a48ccb5ada7e},
      {"bert_large_bf16", 14682, 7340, 7337, 44987872354, 5249286368, 6020, 3, 68157440, 1,
       0x54bd3e242afea23c},
      {"gpt2_large_amp", 17923, 8961, 8958, 70843307278, 15589037848, 11100, 3, 68157440, 1,
       0x46a0cb02c2875d64},
      {"mixtral_amp", 5507, 2752, 2750, 27204003980, 8634822916, 1796, 2, 67108864, 1,
       0x1ca267828fbd3b48},
      {"mixtral_bf16_eager", 12917, 6457, 6455, 30982572291, 3666175396, 12088, 2, 67108864, 1,
       0xb9d53f64d7ac07fa},
      {"mixtral_generate", 25888, 12943, 12942, 34540325967, 1069537944, 25731, 1, 33554432, 1,
       0x7a2156b5e0e2084e},
      {"t5_base_bf16", 25151, 12574, 12572, 81920915139, 7477052104, 11217, 2, 67108864, 1,
       0x0c2b1368a16047b3},
      {"t5_small_fp32", 21283, 10640, 10638, 15296910502, 1552573452, 11436, 2, 67108864, 1,
       0xd4d8a71868cd6f32},
      {"vit_infer", 2779, 1387, 1385, 12330159056, 459396560, 278, 2, 34603008, 1,
       0x46d8fbb21f7fa455},
      {"vit_large_eager_amp", 20678, 10338, 10335, 84888655844, 8989788040, 8759, 3, 68157440, 1,
       0xb67b16aab5c66157},
      {"llama_assisted", 30002, 15076, 14924, 1528059610, 1102427705, 2283, 152, 1100001162, 1,
       0x8bc43765029a0c83},
      {"ddp_gpt2_amp", 13578, 6794, 6778, 78353519124, 6232974856, 4553, 16, 565916672, 1,
       0x3f9610b18bbbbb16},
      {"ddp_view_gpt2_fp32", 14513, 7262, 7246, 52419797958, 4597382152, 7622, 16, 565916672, 1,
       0x5444e03b84056790},
      {"fsdp1_gpt2_bf16", 8608, 4202, 4173, 40583083319, 4000841224, 3946, 29, 565916672, 4,
       0x42d004fc67ef628a},
      {"fsdp2_llama_bf16", 10519, 5296, 5217, 78235114108, 5634900616, 3667, 79, 1050743296, 3,
       0x7a6a930946423c2a},
      {"fsdp2_llama_ckpt", 9642, 4858, 4779, 64450335497, 4657029940, 6414, 79, 1050743296, 3,
       0xe745e9c635256f2d},
      {"gpt2_adamw_loop", 8960, 4479, 4476, 28483790708, 3601863688, 3761, 3, 68157440, 1,
       0x54121568a2483f55},
      {"gpt2_ckpt_attention", 11186, 5592, 5589, 125689763918, 7556387336, 4847, 3, 68157440, 1,
       0x6c869c2fd7b7aab3},
      {"gpt2_ckpt_every2", 12159, 6079, 6075, 128551707726, 6981374472, 5262, 4, 69206016, 1,
       0x9f20c2ee71edf2e9},
      {"gpt2_clip_eval", 18591, 9293, 9290, 131713220448, 5735215624, 4798, 3, 68157440, 1,
       0x58fbe3bf36bb47c1},
      {"gpt2_leak_eval", 6690, 3342, 3340, 10622951760, 5860916288, 4766, 2, 34603008, 1,
       0x6e2f01fbce237196},
      {"gpt2_momentum_loop", 6888, 3443, 3440, 24999476084, 3601863688, 2873, 3, 68157440, 1,
       0xbdd85edd3ebea5f3},
      {"gpt2_save_resume", 14669, 7331, 7328, 38401451072, 3507616856, 8675, 3, 68157440, 1,
       0x3ef9e37dfef88590},
      {"llama_ckpt_reentrant", 10235, 5116, 5114, 67079266941, 9904521732, 3333, 2, 67108864, 1,
       0x6826bc497309b1e4},
      {"llama_ckpt_selective", 7697, 3847, 3845, 39013813289, 4577800884, 3311, 2, 67108864, 1,
       0x745a48aaf573c1c7},
      {"zero1_gpt2_amp", 9487, 4743, 4739, 58284428115, 6232977928, 4176, 4, 244603904, 1,
       0x243a9973ed987045},
      {"gpt2_fp16_scaler", 13669, 6833, 6830, 100613187516, 7701353172, 4399, 3, 68157440, 1,
       0x02f56888ab80d9e2},
      {"gpt2_fp16_scaler_plain", 9202, 4600, 4597, 56044297204, 5237456404, 4065, 3, 68157440, 1,
       0x6ffc55e3189cdf08},
      {"vit_fp32_momentum", 7001, 3499, 3496, 29420875024, 2713376712, 2232, 3, 68157440, 1,
       0x83ed14928b605319},
      {"t5_generate", 30002, 15087, 14913, 1046115508, 180012056, 305, 174, 173099336, 1,
       0x0286d0d45b1879ce},
      {"gpt2_beam", 30003, 15108, 14892, 5692929031, 355900100, 784, 216, 314825016, 1,
       0xd39d5fe8ec3b3b2d},
      {"llama_sample_padded", 30002, 15059, 14941, 3545729304, 1049460024, 912, 118, 1028628528, 1,
       0xdec6842b5014a769},
      {"llama_static_cache", 28194, 14096, 14095, 4158013670, 1072903544, 848, 1, 33554432, 1,
       0xf8859e03f4016c49},
      {"bert_embed_fp16", 7490, 3739, 3737, 11985243162, 396313088, 3267, 2, 34603008, 1,
       0x54c145f3ca5d36c3},
      {"bert_padded_amp", 13705, 6851, 6848, 46160203048, 4511559556, 4507, 3, 68157440, 1,
       0x2e074c19e39566b5},
      {"gpt2_padded_eager_fp32", 8132, 4065, 4062, 26991603575, 3601880072, 3503, 3, 68157440, 1,
       0x08161f884be4a580},
      {"llama_padded_bf16", 7175, 3586, 3584, 36904940501, 5399777672, 3189, 2, 67108864, 1,
       0xa6d100ccbdf03293},
      {"llama_peft_lora", 10266, 5131, 5129, 41695631644, 3145322888, 3711, 2, 67108864, 1,
       0x3c7a83bb9a94509e},
      {"bert_padded_infer", 5636, 2814, 2812, 16474121704, 735320296, 854, 2, 34603008, 1,
       0x344272658a2f5176},
      {"qwen2_bf16", 7024, 3511, 3508, 20357029968, 3945525136, 3079, 3, 68157440, 1,
       0xd3c151ed3505cafd},
      {"qwen3_ckpt_amp", 10139, 5068, 5066, 62616916077, 7184267784, 4320, 2, 67108864, 1,
       0x80e77e67ce1f0f4a},
      {"qwen2_lora", 8937, 4467, 4464, 21600887792, 2842124296, 3191, 3, 68157440, 1,
       0x17383f586ca68c2d},
      {"llama_ckpt_varlen", 15659, 7828, 7826, 49245523062, 4868493108, 8456, 2, 67108864, 1,
       0xe61d2918a96edb6c},
      {"gpt2_sdpa_fp32", 6036, 3017, 3014, 28286393060, 3728841736, 2573, 3, 68157440, 1,
       0x12e1386513532c6a},
      {"mixtral_pairs_bf16", 4121, 2059, 2057, 19154738655, 3443857540, 1343, 2, 67108864, 1,
       0xcf1fafab6ac8f165},
      {"t5_targets_bf16", 25228, 12611, 12609, 12072023182, 945920668, 5738, 2, 67108864, 1,
       0x584e13f0653505c3},
      {"gpt2_offload", 5508, 2827, 2676, 23641099763, 2656340680, 2439, 151, 317037056, 1,
       0xc4fb0bb80ffb935f},
      {"llama_chunked_loss", 4085, 2041, 2039, 39779678553, 3081140584, 1868, 2, 67108864, 1,
       0xc8f0b39f6ab82f18},
      {"timm_vit_amp", 9505, 4751, 4748, 48466400496, 3544535208, 3131, 3, 68157440, 1,
       0x2cb76356aaa98c52},
      {"dit_s2_amp", 10240, 5119, 5116, 29919127976, 2439689972, 4408, 3, 68157440, 1,
       0xb0183bbf4526424d},
      {"dit_b4_fp32", 7208, 3603, 3600, 12237472444, 2435852144, 3087, 3, 68157440, 1,
       0x1e98396b7646d4a7},
      {"llama_int8_generate", 24272, 12135, 12134, 36821755907, 743912760, 1070, 1, 33554432, 1,
       0xcef1100b6340bd94},
      {"llama_int4_generate", 30003, 15068, 14932, 59072881404, 493526688, 1138, 136, 436475548, 1,
       0xc93ce23c1bc45bb8},
      {"llama_fp8", 12349, 6195, 6149, 43819380397, 4634203036, 6030, 46, 610271232, 1,
       0x51836acb7ac05e90},
      {"llava_frozen_bf16", 6864, 3431, 3428, 15700691408, 2401990108, 3398, 3, 68157440, 1,
       0x38991fe478f7f978},
      {"llava_whole_amp", 12304, 6151, 6148, 14493928998, 3923694084, 3884, 3, 68157440, 1,
       0x05e8624b796ab0e7},
      {"llava_generate", 21028, 10513, 10511, 2453954920, 518055784, 1320, 2, 34603008, 1,
       0x64bad06c137ef5a2},
      {"cp2_llama_bf16", 13639, 6856, 6777, 60780640928, 4049840776, 4859, 79, 666422784, 3,
       0x5d1f6e99356d6c59},
      {"cp2_gpt2_fp32", 12732, 6439, 6288, 53686146911, 4478979080, 5853, 151, 317038592, 3,
       0xe0a3e13f44847426},
      {"cp4_qwen3_bf16", 15819, 7943, 7871, 39839274962, 2674402080, 7156, 72, 192093696, 3,
       0xe2025d285bb37f98},
      {"unet_fp32", 11660, 5829, 5826, 46448752718, 3660517211, 4905, 3, 68157440, 1,
       0x32b80240bdcb31fe},
      {"unet_amp", 18650, 9324, 9321, 39030548480, 3133592794, 7896, 3, 68157440, 1,
       0x2dd747d3cf100ae6},
      {"unet_wide_amp", 15098, 7548, 7545, 23265125249, 3063976634, 6402, 3, 68157440, 1,
       0x922e802a523a7661},
      {"unet_small_fp32", 9026, 4512, 4509, 12269707703, 951649755, 3796, 3, 68157440, 1,
       0x7ae60ffb2fcfb44f},
      {"gpt2_compiled", 4155, 2076, 2073, 58500241693, 1894878120, 2600, 3, 68157440, 1,
       0x263a08f537ef5a3c},
  };
  CHECK(recorded_traces().size() == std::size(pinned));
  for (const Pinned& expected : pinned) {
    INFO(expected.name);
    const TraceSummary summary = summarize(*open_workload(expected.name, 1));
    CHECK(summary.event_count == expected.events);
    CHECK(count_of(summary, EventKind::Alloc) == expected.allocs);
    CHECK(count_of(summary, EventKind::Free) == expected.frees);
    CHECK(summary.requested_bytes_total == expected.total);
    CHECK(summary.requested_bytes_peak == expected.peak);
    CHECK(summary.peak_event_index == expected.peak_index);
    CHECK(summary.leftover_count == expected.left);
    CHECK(summary.leftover_bytes == expected.left_bytes);
    CHECK(summary.stream_count == expected.streams);
    CHECK(summary.hash == expected.hash);
  }
}

TEST_CASE("live bytes that would overflow are refused") {
  const TemporaryFolder folder;
  std::string text = "op,id,size,stream\n";
  for (int i = 1; i <= 9; ++i) text += "alloc," + std::to_string(i) + ",1152921504606846975,0\n";
  const std::unique_ptr<EventSource> source = open_trace_file(folder.write("t.csv", text));
  CHECK(mentions(usage_error_of([&] { static_cast<void>(summarize(*source)); }),
                 "t.csv:10: live bytes overflow"));
}

TEST_CASE("requests that failed are in no sum, no peak and no histogram") {
  const TemporaryFolder folder;
  const std::unique_ptr<EventSource> source = open_trace_file(
      folder.write("t.csv",
                   "op,id,size,stream,tensor\nalloc,1,512,0,\nalloc,2,4096,0,failed\nfree,2,0,0,\n"
                   "alloc,3,256,0,\nalloc,4,8192,0,failed\nfree,4,0,0,\nfree,1,0,0,\n"));
  const TraceSummary summary = summarize(*source);
  CHECK(summary.requested_bytes_total == 768);
  CHECK(summary.requested_bytes_peak == 768);
  CHECK(summary.largest_bytes == 512);
  CHECK(summary.live_count_peak == 2);
  CHECK(summary.leftover_count == 1);
  CHECK(summary.failed_count == 2);
  CHECK(summary.failed_largest_bytes == 8192);
  CHECK(summary.size_octave_counts[12] == 0);
  CHECK(summary.lifetime_octave_counts[0] == 0);  // one event, as a failed request's free
  CHECK(to_text(summary).find("failed requests      2, the largest 8.00 KiB") != std::string::npos);
}
