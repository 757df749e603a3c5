#!/usr/bin/env python3
"""`allocmark why` says who held the memory: by stacks where they were recorded, else by lifetimes, and never more than these tell. The
made-up snapshots have the documented structure; their owners are known, because the test makes them.

usage: owners_test.py ALLOCMARK
"""
import html
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

ALLOCMARK = ""
MIB = 1 << 20
BASE = 0x7F0000000000
TORCH = "/usr/lib/python3/dist-packages/torch/"
TRAIN = ("/home/ann/train.py", "main", 40)


def stack(*frames):
    return [{"filename": file, "name": name, "line": line} for file, name, line in (*frames, TRAIN)]


MOVED = stack((TORCH + "nn/modules/module.py", "<lambda>", 1097), (TORCH + "nn/modules/module.py", "_apply", 900))
LINEAR = stack((TORCH + "nn/modules/linear.py", "forward", 134), (TORCH + "nn/modules/module.py", "_call_impl", 1790),
               ("/home/ann/model.py", "forward", 21))
STATE = stack((TORCH + "optim/adam.py", "_init_group", 178), (TORCH + "optim/optimizer.py", "wrapper", 533))
FOREACH = stack((TORCH + "optim/adam.py", "_multi_tensor_adam", 791), (TORCH + "optim/optimizer.py", "wrapper", 533))
LOADER = stack((TORCH + "utils/data/_utils/pin_memory.py", "pin_memory", 70))
CACHE = stack(("/site-packages/transformers/cache_utils.py", "update", 400), ("/site-packages/transformers/modeling_x.py", "forward", 90))
OWN = stack()
CPP_BACKWARD = [{"filename": "??", "name": name, "line": 0} for name in (
    "at::detail::empty_generic", "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)",
    "torch::autograd::Engine::evaluate_function")]
AUTOGRAD_THREAD = None


class Job:
    """Requests that each take a segment of their own."""

    def __init__(self):
        self.entries, self.live, self.count = [], {}, 0

    def entry(self, action, size, frames, **place):
        self.entries.append({"action": action, "size": size, "stream": 0, "time_us": 1_790_000_000_000_000 + len(self.entries), **place,
                             **({"frames": frames} if frames is not None else {})})

    def alloc(self, mib, frames=AUTOGRAD_THREAD):
        address, size = BASE + (self.count << 34), int(mib * MIB)
        self.count += 1
        self.entry("segment_alloc", size, frames, addr=address)
        self.entry("alloc", size - 100, frames, addr=address)
        self.live[address] = (size, frames)
        return address

    def free(self, *addresses):
        for address in addresses:
            size, _ = self.live.pop(address)
            for action in ("free_requested", "free_completed"):
                self.entry(action, size - 100, None, addr=address)
            self.entry("segment_free", size, None, addr=address)

    def fail(self, mib, frames=AUTOGRAD_THREAD):
        self.entry("oom", int(mib * MIB), frames, device_free=2 * MIB)

    def snapshot(self):
        segments = [{"device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                     "is_expandable": False, "frames": [],
                     "blocks": [{"address": address, "size": size, "requested_size": size - 100, "state": "active_allocated",
                                 "frames": frames or []}]} for address, (size, frames) in self.live.items()]
        return {"device_traces": [self.entries], "segments": segments}


def training(stacks=True, steps=2, backward=AUTOGRAD_THREAD):
    """Three weights, two states each, and steps; the last one fails when one of two gradients is there."""
    def of(frames):
        return frames if stacks else AUTOGRAD_THREAD

    job = Job()
    for mib in (64, 32, 30):
        job.alloc(mib, of(MOVED))
    for step in range(steps):
        data = job.alloc(22, of(LOADER))
        activations = [job.alloc(40, of(LINEAR)) for _ in range(5)]
        job.alloc(24, of(OWN))  # a list of losses that grows
        if step == steps - 1:
            break
        grads = []
        for mib in (30, 32, 64):
            scratch = job.alloc(28, of(backward))
            grads.append(job.alloc(mib, of(backward)))
            job.free(scratch)
        job.free(*activations, data)
        if step == 0:
            for mib in (64, 32, 30) * 2:
                job.alloc(mib, of(STATE))
        job.free(job.alloc(26, of(FOREACH)))
        after = job.alloc(22, of(OWN))
        job.free(after, *grads)
    job.alloc(30, of(backward))
    job.alloc(36, of(backward))
    job.fail(900, of(LINEAR))
    return job


# Blocks and MiB of each owner in `training()`.
WANTED = {"weights": (3, 126), "optimizer state": (6, 252), "activations": (5, 200), "inputs": (1, 22),
          "the program's own code": (2, 48), "gradients": (1, 30)}


def run(*words):
    return subprocess.run([ALLOCMARK, *words], capture_output=True, text=True)


class Owners(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def why(self, job, *words):
        path = os.path.join(self.folder, "job.pickle")
        with open(path, "wb") as file:
            pickle.dump(job.snapshot(), file, protocol=4)
        answer = run("why", path, *words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def held(self, job):
        facts = json.loads(self.why(job, "--format", "json"))
        held = facts["held"]
        # No byte is lost or counted twice, whatever the owners are.
        self.assertEqual(sum(one["bytes"] for one in held["owners"]), held["live_bytes"])
        self.assertEqual(sum(one["block_count"] for one in held["owners"]), held["block_count"])
        self.assertEqual(held["live_bytes"], sum(size - 100 for size, _ in job.live.values()))
        if "oom" in facts:
            self.assertEqual(held["live_bytes"] + held["rounding_bytes"], facts["oom"]["live_bytes"])
        bytes_of = [one["bytes"] for one in held["owners"]]
        self.assertEqual(bytes_of, sorted(bytes_of, reverse=True))
        return facts, {one["name"]: (one["block_count"], round((one["bytes"] + 100 * one["block_count"]) / MIB)) for one in held["owners"]}

    def test_a_training_job_that_is_too_big_names_its_owners(self):
        facts, owners = self.held(training())
        # What the backward pass makes has no stack; as large as a weight it is a gradient, else nothing is claimed.
        self.assertEqual(owners, {**WANTED, "unknown": (1, 36)})
        self.assertIn("most is held by optimizer state (252 MiB) and activations (200 MiB)", facts["answer"])
        later, _ = self.held(training(steps=4))  # where more was reserved before, it is not certain that nothing helps
        self.assertIn("were free in all; most is held by optimizer state (252 MiB) and activations (200 MiB); none of", later["answer"])
        held = facts["held"]
        self.assertEqual((held["request"]["owner"], held["request"]["name"]),
                         ("activations", "linear.py:134 forward < model.py:21 forward < train.py:40 main"))
        self.assertEqual(held["stacks"][0]["name"], "adam.py:178 _init_group < train.py:40 main")
        self.assertEqual([(one["name"], one["block_count"]) for one in held["modules"]], [("model > linear", 5)])

    def test_frames_of_cpp_tell_the_backward_pass(self):
        _, owners = self.held(training(backward=CPP_BACKWARD))
        self.assertEqual(owners, {**WANTED, "work space": (1, 36)})

    def test_the_text_and_the_page_say_the_same(self):
        job = training()
        text = self.why(job, "--out", os.path.join(self.folder, "why.html"))
        flat = " ".join(text.split())
        self.assertIn("What held 714 MiB when the request failed, as the program asked, in 19 blocks:", flat)
        self.assertRegex(flat, r"252 MiB 35\.3 % optimizer state, 6 blocks: asked for in an optimizer's step")
        self.assertIn("The request that failed: 900 MiB, activations: linear.py:134 forward", flat)
        markdown = self.why(job, "--format", "markdown")
        self.assertIn("| optimizer state | 252 MiB | 35.3 % | 6 |", markdown)
        self.assertIn("| `linear.py:134 forward < model.py:21 forward", markdown)
        self.assertTrue(all(line.count(" |") >= 3 for line in markdown.split("\n") if line.startswith("|")))
        self.assertNotIn("Segments with the most free memory", text)  # nothing is free
        with open(os.path.join(self.folder, "why.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertLess(page.index('id="held"'), page.index('id="oom"'))  # nothing is free, so that comes first
        self.assertRegex(page, r'<polygon [^>]*class="f-line3"><title>optimizer state: at most 252 MiB</title>')
        widths = {name: float(width) for width, name in re.findall(r'<rect [^>]*width="([0-9.]+)" height="19"[^>]*><title>([^:]*:[0-9]+ [^:]*):', page)}
        self.assertAlmostEqual(widths["adam.py:178 _init_group"] / widths["linear.py:134 forward"], 252 / 200, delta=0.02)
        plain = [html.unescape(re.sub(r"<[^>]*>", " ", one)).strip() for one in re.findall(r"<p>(.*?)</p>", page, re.S)]
        self.assertTrue(any(one.startswith("self-check:") and "release:" not in one for one in plain), plain)

    def test_without_stacks_only_lifetimes_are_told(self):
        _, owners = self.held(training(stacks=False, steps=4))
        # Weights, states and three losses are there before the last step; what that one asked for is of the last step.
        self.assertEqual(owners, {"kept from earlier": (12, 450), "of the last step": (9, 312)})
        self.assertIn("No stacks were recorded", self.why(training(stacks=False, steps=4)))

    def test_a_dip_inside_a_step_is_no_end_of_it(self):
        job = Job()
        job.alloc(100)
        for step in range(3):
            activations = [job.alloc(40) for _ in range(10)]
            if step == 2:
                break
            job.free(*activations)
        logits = [job.alloc(90) for _ in range(4)]
        job.free(*logits[:3])
        job.alloc(95)
        job.alloc(97)
        job.fail(400)
        self.assertEqual(self.held(job)[1], {"of the last step": (13, 682), "kept from earlier": (1, 100)})

    def test_without_stacks_a_first_step_is_unknown(self):
        job = Job()
        for mib in (64, 32, 30, 40, 44):
            job.alloc(mib)
        job.fail(500)
        facts, owners = self.held(job)
        self.assertEqual(owners, {"unknown": (5, 210)})
        self.assertNotIn("most is held", facts["answer"])
        self.assertEqual(facts["held"]["sizes"][0]["size_bytes"], 64 * MIB - 100)

    def test_what_a_forward_pass_leaves_behind_is_told_apart(self):
        job = training()
        leak = Job()
        leak.alloc(64, MOVED)
        kept = leak.alloc(50, LINEAR)
        for _ in range(2):
            leak.free(leak.alloc(40, LINEAR))
            leak.free(leak.alloc(26, FOREACH))
        leak.alloc(40, LINEAR)
        self.assertIn(kept, leak.live)
        _, owners = self.held(leak)
        self.assertEqual(owners, {"weights": (1, 64), "kept from forward passes": (1, 50), "activations": (1, 40)})
        self.assertNotIn("kept from forward passes", self.held(job)[1])

    def test_frames_of_well_known_programs_are_told(self):
        site = "/opt/venv/lib/python3.12/site-packages/"
        cases = (
            ("weights", (TORCH + "distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_all_gather", 100)),
            ("gradients", (TORCH + "distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_reduce", 100)),
            ("gradients", (TORCH + "nn/parallel/distributed.py", "_ddp_init_helper", 100)),
            ("weights", (site + "transformers/modeling_utils.py", "_load_state_dict_into_meta_model", 100)),
            ("weights", (site + "vllm/model_executor/layers/linear.py", "create_weights", 100)),
            ("weights", (site + "vllm/model_executor/models/llama.py", "__init__", 100)),
            ("key-value cache", (site + "vllm/v1/worker/gpu_model_runner.py", "_allocate_kv_cache_tensors", 100)),
            ("key-value cache", (site + "sglang/srt/mem_cache/memory_pool.py", "_create_buffers", 100)),
            ("optimizer state", (site + "deepspeed/runtime/zero/stage_1_and_2.py", "initialize_optimizer_states", 100)),
            ("work space", (TORCH + "nn/utils/clip_grad.py", "_clip_grads_with_norm_", 100)),
            ("activations", (TORCH + "nn/functional.py", "cross_entropy", 100)),
            ("inputs", (site + "accelerate/utils/operations.py", "send_to_device", 100)),
            # A name of a person or a folder is no optimizer.
            ("the program's own code", ("/home/adam/muon/play.py", "step", 100)),
            ("the program's own code", (TORCH + "_tensor.py", "clone", 100)))
        for owner, frame in cases:
            with self.subTest(owner, frame=frame):
                job = Job()
                job.alloc(50, stack(frame))
                job.fail(500, OWN)
                self.assertEqual(self.held(job)[1], {owner: (1, 50)})

    def test_a_forward_pass_inside_the_backward_pass_makes_activations(self):
        again = stack((TORCH + "nn/modules/linear.py", "forward", 134), (TORCH + "utils/checkpoint.py", "unpack_hook", 1100))
        job = training()
        job.entries.pop()
        job.alloc(40, again)
        job.fail(900, again)
        owners = self.held(job)[1]
        self.assertEqual(owners["activations"], (6, 240))
        self.assertEqual(owners["gradients"], (1, 30))  # computing again does not end the backward pass

    def test_caches_of_keys_and_values_are_named(self):
        job = Job()
        job.alloc(64, MOVED)
        job.alloc(200, CACHE)
        job.fail(500, CACHE)
        self.assertEqual(self.held(job)[1], {"weights": (1, 64), "key-value cache": (1, 200)})

    def test_blocks_from_before_the_recording_are_no_more_than_that(self):
        job = training()
        first = next(i for i, one in enumerate(job.entries) if one["size"] == 22 * MIB - 100)
        job.entries = job.entries[first - 1:]
        snapshot_live = dict(job.live)
        job.live = {address: (size, None if index < 3 else frames) for index, (address, (size, frames)) in enumerate(snapshot_live.items())}
        _, owners = self.held(job)
        self.assertEqual(owners["from before the recording"], (3, 126))
        self.assertEqual(owners["gradients"], (1, 30))

    def test_recorded_histories_lose_no_byte(self):
        for name in ("train_oom", "train_amp", "generate_varied", "streams_attached", "graphs", "device_oom"):
            with self.subTest(name):
                answer = run("why", f"tests/golden/snapshots/{name}.pickle.gz", "--format", "json")
                facts = json.loads(answer.stdout)
                held = facts["held"]
                self.assertEqual(sum(one["bytes"] for one in held["owners"]), held["live_bytes"])
                if "oom" in facts:
                    self.assertEqual(held["live_bytes"] + held["rounding_bytes"], facts["oom"]["live_bytes"])
                else:
                    self.assertEqual(held["live_bytes"], facts["live_bytes_peak"])


if __name__ == "__main__":
    ALLOCMARK = os.path.abspath(sys.argv.pop(1))
    unittest.main()
