#!/usr/bin/env python3
"""Goal: 'estimate' says what 'run' says, and adds up. Method: jobs whose peaks are known by arithmetic, a recording replayed by 'run' beside,
and measurements of PyTorch itself on an H100.

usage: estimate_cli_test.py ALLOCMARK
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ALLOCMARK = ""
MIB = 1 << 20
GIB = 1 << 30
# ViT-Base, 32 images, three steps, written in plain PyTorch with timm's structure: PyTorch 2.11.0+cu130 on an H100, driver 580.159.04,
# 2026-11-26. Keys; max_memory_reserved() and what nvidia-smi showed, MiB.
VIT_ON_H100 = (
    ("precision=fp32,optimizer=adamw", 5124, 5891),
    ("precision=fp32,optimizer=sgd_momentum", 4784, 5551),
    ("precision=bf16_autocast,optimizer=adamw", 3720, 4487),
)
# Configs of models on Hugging Face, shortened to what is read, and the parameters of their classes in transformers 5.13.1 on meta, 2026-11-27.
COUNTED = (
    (7241732096, {"model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                  "intermediate_size": 14336, "vocab_size": 32000}),
    (3821079552, {"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
                  "intermediate_size": 8192, "vocab_size": 32064}),
    (3836021760, {"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 24, "num_key_value_heads": 8,
                  "intermediate_size": 8192, "vocab_size": 200064, "tie_word_embeddings": True}),
    (30532122624, {"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
                   "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
                   "vocab_size": 151936}),
)  # fmt: skip


def call(*words, code=0):
    run = subprocess.run([ALLOCMARK, *words], capture_output=True, text=True)
    assert run.returncode == code, (run.returncode, run.stderr)
    return run.stdout if code == 0 else run.stderr


def estimate(*words):
    return json.loads(call("estimate", *words, "--format", "json"))


class Estimate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, name, text):
        path = Path(self.folder.name) / name
        path.write_text(text)
        return str(path)

    def test_it_reserves_what_run_reserves_in_every_phase_or_less(self):
        found = estimate("gpt2_train_amp", "-c", "unset", "expandable_segments:True")
        words = ["run", "--workload", "gpt2_train_amp", "--allocator", "caching", "--device", "sim:h200", "--capacity", "unlimited", "--passes", "1"]
        out = Path(self.folder.name) / "run"
        call(*words, "--conf", "unset", "--conf", "expandable_segments:True", "--out", str(out))
        cells = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
        ran = {cell["conf"]: cell for cell in cells if "reserved_bytes_peak" in cell}
        for setting in found["settings"]:
            cell = ran[setting["conf"]]
            self.assertEqual(setting["reserved_bytes"], cell["reserved_bytes_peak"])
            self.assertEqual(setting["allocated_bytes"], cell["allocated_bytes_peak"])
            self.assertEqual(found["live_bytes"], cell["requested_bytes_peak"])
            self.assertEqual(max(setting["reserved_bytes_by_phase"].values()), setting["reserved_bytes"])

    def test_a_block_counts_whole_as_allocated(self):
        # PyTorch leaves 1 MiB or less at a large block's end: 19.5 MiB lie in a segment of 20. A large request is rounded to 512 bytes alone.
        path = self.write("rests.csv", "op,id,size,stream\nalloc,1,20447232,0\nalloc,2,1000,0\nfree,1,0,0\nfree,2,0,0\n")
        found = estimate(path, "-c", "unset", "expandable_segments:True")
        self.assertEqual(found["live_bytes"], 20447232 + 1000)
        self.assertEqual([setting["allocated_bytes"] for setting in found["settings"]], [(20 << 20) + 1024, 20447232 + 1024])
        self.assertIn(" allocated ", call("estimate", path))

    def test_two_processes_have_no_sum_of_what_is_allocated(self):
        found = estimate("train:gpt2-124m,batch=1,seq=64 beside train:gpt2-124m,batch=1,seq=64", "-c", "unset")
        self.assertIsNone(found["settings"][0]["allocated_bytes"])

    def test_kinds_and_phases_add_up(self):
        found = estimate("train:gpt2-124m,batch=2,seq=256,steps=2,precision=bf16,kv_cache=none", "-c", "unset")
        self.assertEqual([phase["name"] for phase in found["phases"]], ["load", "forward", "backward", "optimizer"])
        for phase in found["phases"]:
            self.assertEqual(sum(phase["by_use"].values()), phase["live_bytes"])
        # 124,439,808 parameters in two bytes, and two states of each.
        load, _, _, step = found["phases"]
        self.assertEqual(load["by_use"]["weights_bytes"], 2 * 124439808)
        self.assertEqual(load["live_bytes"], 2 * 124439808)
        self.assertEqual(step["by_use"]["optimizer_bytes"] // MIB, 4 * 124439808 // MIB)
        self.assertEqual(step["by_use"]["gradients_bytes"], 2 * 124439808)
        self.assertEqual(found["live_bytes"], max(phase["live_bytes"] for phase in found["phases"]))

    def test_it_says_what_nvidia_smi_showed_of_a_job_in_pytorch(self):
        for keys, reserved_mib, shown_mib in VIT_ON_H100:
            words = f"train:vit-base,batch=32,implementation=timm,steps=3,{keys}"
            found = estimate(words, "-d", "sim:h100", "--pytorch", "2.11", "-c", "unset")
            setting = found["settings"][0]
            with self.subTest(keys):
                self.assertAlmostEqual(setting["reserved_bytes"] / MIB, reserved_mib, delta=2)
                self.assertAlmostEqual(setting["shown_bytes"] / MIB, shown_mib, delta=4)
                self.assertLess(setting["shown_low_bytes"], shown_mib * MIB)
                self.assertGreater(setting["shown_high_bytes"], shown_mib * MIB)

    def test_a_card_between_live_and_reserved_is_settled_by_a_replay(self):
        # 4 GiB live at most. A cache of three sizes holds 1 + 2 + 4 GiB, and can give 3 of them back.
        rows = [line for size in (1, 2, 4) for line in (f"mark,step{size},0,0", f"alloc,{size},{size * GIB},0", f"free,{size},0,0")]
        path = self.write("stairs.csv", "op,id,size,stream\n" + "\n".join(rows) + "\n")
        said = {}
        for size in (3, 6, 10):
            found = estimate(path, "-d", f"sim:h200,memory={size}GiB", "-c", "unset")
            self.assertEqual(found["live_bytes"], 4 * GIB)
            self.assertEqual(found["settings"][0]["reserved_bytes"], 7 * GIB)
            said[size] = found["settings"][0]["fit"]
        self.assertEqual(said, {3: "does not fit", 6: "fits, flushing", 10: "fits"})

    def test_the_interval_is_percents_of_the_reserved_part_and_the_range_outside(self):
        for workload, low, high in (("gpt2_train_amp", -11, 16), ("train:gpt2-124m,batch=2,seq=256,steps=2", -11, 34)):
            found = estimate(workload, "-d", "sim:h100", "-c", "unset")
            self.assertEqual(found["spread_percent"], {"low": low, "high": high})
            setting, outside = found["settings"][0], found["outside"]
            self.assertAlmostEqual(setting["shown_low_bytes"], setting["reserved_bytes"] * (100 + low) / 100 + outside["low_bytes"], delta=1)
            self.assertAlmostEqual(setting["shown_high_bytes"], setting["reserved_bytes"] * (100 + high) / 100 + outside["high_bytes"], delta=1)

    def test_a_config_is_its_model(self):
        config = {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
                  "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True}  # fmt: skip
        path = self.write("config.json", json.dumps(config))
        keys = ",batch=1,seq=512,steps=1,precision=bf16"
        self.assertEqual(estimate(f"train:{path}{keys}")["phases"], estimate(f"train:llama-3.2-1b{keys}")["phases"])
        refused = call("estimate", f"train:{self.write('gemma.json', json.dumps({'model_type': 'gemma2'}))}", code=2)
        self.assertIn("gemma2", refused)

    def test_a_config_of_many_keys_is_longer_than_a_files_name_can_be(self):
        config = {"model_type": "deepseek_v3", "hidden_size": 512, "intermediate_size": 1024, "moe_intermediate_size": 256, "num_hidden_layers": 4,
                  "num_attention_heads": 8, "num_key_value_heads": 8, "n_shared_experts": 1, "n_routed_experts": 16, "kv_lora_rank": 64,
                  "q_lora_rank": 128, "qk_rope_head_dim": 32, "v_head_dim": 64, "qk_nope_head_dim": 64, "n_group": 8, "topk_group": 4,
                  "num_experts_per_tok": 4, "first_k_dense_replace": 1, "vocab_size": 32000, "tie_word_embeddings": False}  # fmt: skip
        path = self.write("config.json", json.dumps(config))
        found = estimate(f"train:{path},batch=1,seq=64,steps=1,precision=bf16,checkpoint=full,optimizer=sgd")
        self.assertGreater(found["phases"][0]["by_use"]["weights_bytes"], 0)

    def test_a_config_has_the_parameters_of_its_class(self):
        for count, config in COUNTED:
            path = self.write("config.json", json.dumps(config))
            found = estimate(f"train:{path},batch=1,seq=16,steps=1,precision=bf16", "-d", "sim:h200", "-c", "unset")
            with self.subTest(config["model_type"]):
                self.assertEqual(found["phases"][0]["by_use"]["weights_bytes"], 2 * count)

    def test_the_table_names_the_peak_and_the_smallest_card(self):
        told = call("estimate", "train:llama-3-8b,batch=1,seq=1024,steps=2,lora=16,checkpoint=full", "-d", "sim:rtx-4090")
        self.assertIn("activations", told)
        self.assertIn("logits", told)
        self.assertIn("backward *", told)
        self.assertIn("sim:rtx-4090", told)
        self.assertIn("this card was not measured", told)

    def test_fit_names_the_same_smallest_card(self):
        jobs = ("train:gpt2-124m,batch=8,seq=1024,steps=2", "train:vit-base,batch=64,steps=2", "comb:count=8 beside comb:count=8")
        for job in jobs:
            estimated = {one["conf"]: one["smallest_card"] for one in estimate(job)["settings"]}
            found = json.loads(call("fit", job, "-c", "unset", "expandable_segments:True", "--format", "json"))["smallest_card"]
            with self.subTest(job):
                for name in ("unset", "best"):
                    self.assertEqual(found[name]["device"], estimated[found[name]["conf"]])

    def test_two_processes_have_two_contexts(self):
        one, two = (estimate(words, "-d", "sim:h100", "-c", "unset") for words in ("comb:count=8", "comb:count=8 beside comb:count=8"))
        self.assertEqual(two["outside"]["context_bytes"], 2 * one["outside"]["context_bytes"])
        self.assertEqual(two["outside"]["modules_bytes"], 2 * one["outside"]["modules_bytes"])

    def test_short_steps_of_ranks_may_hold_two_sets_of_buckets(self):
        # Live bytes of a Llama with ZeroRedundancyOptimizer on two H200s with NCCL, driver 580.159.04, 2026-11-29.
        widths = "layers=2,hidden=2048,heads=32,ffn=5632,kv_heads=4,head_size=64,tied=0,vocabulary=32000,batch=8,seq=512"
        job = f"train:llama-3-8b,{widths},steps=3,attention=fused,kv_cache=none,dp=2,zero=1,sharder=torch"
        (note,) = [one for one in estimate(job)["notes"] if "holds_buckets" in one]
        self.assertIn("5.98 GiB live", note)
        self.assertEqual(estimate(job + ",holds_buckets=1")["live_bytes"], 6419931432)
        for others in ("fsdp=2", "zero=2,precision=bf16", "zero=1,sharder=torch,holds_buckets=1"):
            said = estimate(f"train:gpt2-124m,layers=2,batch=2,seq=64,dp=2,{others}")
            self.assertFalse([one for one in said["notes"] if "holds_buckets" in one], others)

    def test_a_server_has_no_phases_of_requests(self):
        found = estimate("serve:gpt2-124m,requests=4,kv_memory=64MiB", "-c", "unset")
        self.assertEqual([phase["name"] for phase in found["phases"]], ["load", "step"])

    def test_captures_take_what_an_h100_held(self):
        # What the private pools of a Llama-3-8B's graphs held there, and what the device had less after all captures.
        for keys, pools, capture, rule in (("batch=256,graphs=shared", (72, 64), (118, 110), (120, 112)),
                                           ("batch=256,graphs=shared,graph_order=ascending", (164, 64), (210, 110), (54, 54)),
                                           ("batch=256,graphs=own", (1680, 1740), (1726, 1786), (3470, 3062)),
                                           ("batch=64,graphs=shared", (24,), (42,), (44,))):
            found = estimate(f"serve:llama-3-8b,requests=1,{keys}", "-d", "sim:h100")["settings"]
            for setting, pool, whole, by_rule in zip(found, pools, capture, rule):
                captures = setting["captures"]
                self.assertEqual(captures["pool_bytes"], pool * MIB, keys)
                # PyTorch's first capture takes a segment of 2 MiB beside the pools.
                self.assertAlmostEqual((captures["pool_bytes"] + captures["own_bytes"]) / MIB + 2, whole, delta=1, msg=keys)
                self.assertAlmostEqual(captures["vllm_rule_bytes"] / MIB + 2, by_rule, delta=0.1 if "own" not in keys else 100, msg=keys)
        told = call("estimate", "serve:llama-3-8b,requests=1,graphs=shared", "-d", "sim:h100")
        self.assertIn("vLLM's rule", told)
        self.assertNotIn("vLLM", call("estimate", "serve:llama-3-8b,requests=1", "-d", "sim:h100"))

    def test_a_mempool_is_no_capture(self):
        path = self.write("pool.csv", "op,id,size,stream\npool_create,1,0,0\npool_begin,1,1,0\nalloc,1,4194304,0\npool_end,1,0,0\n"
                                      "pool_release,1,0,0\nfree,1,0,0\n")
        self.assertEqual(estimate(f"file:{path}", "-c", "unset")["settings"][0]["captures"]["graph_count"], 0)

    def test_managed_memory_is_told_beside_what_is_reserved(self):
        # Adapters of rank 64 on 2 layers: q's two and v's first of 262,144 elements are paged, v's second of 65,536 is not.
        job = "train:llama-3-8b,layers=2,batch=1,seq=64,steps=2,lora=64,quantize=nf4,optimizer="
        paged, plain = (estimate(job + kind, "-c", "unset") for kind in ("paged_adamw_32bit", "adamw"))
        self.assertEqual(paged["managed_bytes"], 2 * 2 * 4 * 3 * 262144)
        self.assertEqual(plain["managed_bytes"], 0)
        self.assertEqual(paged["by_use"]["optimizer_bytes"], 2 * 2 * 4 * 65536)
        told = " ".join(call("estimate", job + "paged_adamw_32bit").split())
        self.assertIn("beside: 12.0 MiB of managed memory", told)
        self.assertNotIn("managed", call("estimate", job + "adamw"))
        # A trace file says it in the same way.
        path = self.write("managed.csv", "op,id,size,stream\nalloc,1,1024,0\nmark,managed_memory,4096,0\nmark,managed_memory,512,0\n")
        self.assertEqual(estimate(path, "-c", "unset")["managed_bytes"], 4608)

    def test_a_request_that_failed_counts_where_the_job_ended_with_it(self):
        # Another program's log goes on without it; a trace that ends with it needs it, as 'fit' and 'run' say.
        log = ("Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.1,allocate,0x7f00000000,1073741824,0\n"
               "1,10:00:00.2,allocate failure,(nil),107374182400,0\n1,10:00:00.3,allocate,0x7f80000000,1073741824,0\n")
        ended = "op,id,size,stream,tensor\nalloc,1,1073741824,0,\nalloc,2,2147483648,0,failed\nfree,2,0,0,\n"
        for name, text, live_gib in (("failed.rmm.csv", log, 2), ("ended.csv", ended, 3)):
            path = self.write(name, text)
            found = estimate(path, "-c", "unset")
            self.assertEqual(found["live_bytes"], live_gib * GIB)
            self.assertEqual(found["settings"][0]["reserved_bytes"], live_gib * GIB)
            self.assertIn(f"({live_gib}.00 GiB live at its peak)", call("fit", path, "-c", "unset"))

    def test_a_real_card_is_refused(self):
        self.assertIn("simulated", call("estimate", "gpt2_train_amp", "-d", "cuda:0", code=2))


if __name__ == "__main__":
    ALLOCMARK = sys.argv.pop(1)
    unittest.main()
