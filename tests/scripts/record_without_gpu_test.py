#!/usr/bin/env python3
"""scripts/record/record_without_gpu.py: what it says where something is missing, and that its stubs build and answer. PyTorch is not needed."""
import ast
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "record" / "record_without_gpu.py"
sys.path.insert(0, str(ROOT / "scripts" / "record"))
import record_without_gpu  # noqa: E402


class RecordWithoutGpu(unittest.TestCase):
    def test_names_the_folder_without_simcuda(self):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run([sys.executable, str(SCRIPT), "--simcuda", folder, "llama_fp8"], capture_output=True, text=True)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("libcudart.so.13: no such file", result.stderr)

    def test_a_lone_rank_is_one_that_the_program_has_and_can_do_without_others(self):
        for name, lone, word in (("cp2_llama_bf16", "2", "cp2_llama_bf16 has 2 ranks: wanted 0 to 1"),
                                 ("ddp_gpt2_amp", "0", "compares what its ranks have")):
            result = subprocess.run([sys.executable, str(SCRIPT), "--simcuda", "nowhere", "--lone", lone, name],
                                    capture_output=True, text=True)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(word, result.stderr)

    def test_names_the_device_that_was_none(self):
        import gzip
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "one.ops.csv.gz")
            with gzip.open(path, "wt", encoding="utf-8") as out:
                out.write("# name: one\n# device: NVIDIA H200\nalloc,1,2,0\n")
            record_without_gpu.name_device(path)
            with gzip.open(path, "rt", encoding="utf-8") as recorded:
                self.assertEqual(recorded.read(), f"# name: one\n# device: {record_without_gpu.DEVICE}\nalloc,1,2,0\n")

    def refused(self, *words):
        result = subprocess.run([sys.executable, str(SCRIPT), "--simcuda", "nowhere", *words], capture_output=True, text=True)
        self.assertNotEqual(result.returncode, 0)
        return result.stderr

    def test_says_what_it_wants_of_a_script(self):
        self.assertIn("missing.py: no such script", self.refused("--out", "one.ops.csv.gz", "missing.py"))
        self.assertIn("--out .: of a script wanted the file to write", self.refused(str(SCRIPT)))
        self.assertIn("--card: only for a script", self.refused("--card", "a100", "llama_fp8"))
        self.assertIn("wanted one of SCRIPT.py ARGS...", self.refused())
        self.assertIn("wanted one of SCRIPT.py ARGS...", self.refused("--list", "rows", "one.py"))

    def test_ranks_are_of_a_script_and_the_lone_one_is_among_them(self):
        wanted = "wanted 2 ranks or more, and one of them"
        self.assertIn("--ranks: only for a script", self.refused("--ranks", "4", "llama_fp8"))
        for ranks, lone in (("1", "0"), ("4", "4"), ("4", "-1")):
            self.assertIn(f"--ranks {ranks} --lone {lone}: {wanted}", self.refused("--out", "a.csv.gz", "--ranks", ranks, "--lone", lone, str(SCRIPT)))
        self.assertIn("--lone 1: of a script wanted --ranks, too", self.refused("--out", "a.csv.gz", "--lone", "1", str(SCRIPT)))

    def test_a_script_for_torchrun_gets_a_lone_rank_whatever_group_it_asks_for(self):
        asked = []

        def init_process_group(*given, **named):
            asked.append(("init", given, named))

        def new_group(*given, **named):
            asked.append(("new", given, named))

        names = ("torch", "torch.distributed", "torch.distributed.device_mesh", "torch.distributed.distributed_c10d", "torch.nn", "torch.nn.parallel",
                 "torch.nn.parallel.distributed")
        made = {name: types.ModuleType(name) for name in names}
        for name in names[1:]:
            setattr(made[name.rpartition(".")[0]], name.rpartition(".")[2], made[name])
        plain = made["torch.distributed.distributed_c10d"]
        for name in ("broadcast_object_list", "monitored_barrier", "all_gather_object", "gather_object", "scatter_object_list"):
            setattr(plain, name, None)
        plain.init_process_group, plain.new_group = init_process_group, new_group
        distributed = made["torch.distributed"]
        distributed.init_process_group = made["torch.distributed.device_mesh"].init_process_group = init_process_group
        from references import lone_rank

        def join(rank, size):
            distributed.init_process_group("lone", rank=rank, world_size=size)

        with unittest.mock.patch.dict(sys.modules, made), unittest.mock.patch.dict(os.environ), unittest.mock.patch.object(lone_rank, "join", join):
            lone_rank.stand_in(2, 4)
            self.assertEqual([os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")], ["2", "4", "0"])
            for module in (distributed, plain, made["torch.distributed.device_mesh"]):
                module.init_process_group("nccl", timeout=1)
            plain.new_group([0, 1], backend="gloo", pg_options="nccl's")
            seen, scattered = [None] * 4, [None]
            plain.all_gather_object(seen, "mine")
            plain.scatter_object_list(scattered, list("abcd"))
            self.assertTrue(made["torch.nn.parallel.distributed"]._verify_param_shape_across_processes())
        self.assertEqual(asked, [("init", ("lone",), {"rank": 2, "world_size": 4})] * 3 + [("new", ([0, 1],), {"group_desc": None})])
        self.assertEqual((seen, scattered), (["mine"] * 4, ["c"]))

    def test_a_card_has_its_own_capability_and_all_else_of_the_h200(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "l40s.json")
            record_without_gpu.write_profile(str(ROOT / "harness" / "simcuda"), "l40s", path)
            own = json.loads(Path(path).read_text())
        whole = json.loads((ROOT / "harness" / "simcuda" / "profiles" / "h200.json").read_text())
        changed = {number: value for number, value in own["device"]["attributes"] if [number, value] not in whole["device"]["attributes"]}
        self.assertEqual(changed, {16: 142, 75: 8, 76: 9})
        self.assertEqual(own["costs"], whole["costs"])

    def test_kernels_say_the_capability_that_is_asked_for(self):
        source = ROOT / "scripts" / "record" / "references" / "no_kernels.inc"
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "stubs.so")
            subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", library, "-x", "c", str(source), "-ldl"], check=True)
            ask = "import ctypes; numbers = (ctypes.c_int * 64)(); ctypes.CDLL({!r}).cudaFuncGetAttributes(numbers, None); print(89 in numbers)"
            for capability, answer in (("89", "True"), ("80", "False")):
                run = subprocess.run([sys.executable, "-c", ask.format(library)], env=dict(os.environ, RECORD_CAPABILITY=capability),
                                     capture_output=True, text=True, check=True)
                self.assertEqual(run.stdout.strip(), answer)

    def test_a_default_type_of_the_script_is_not_that_of_a_kernels_tensors(self):
        # Lightning's bf16-true makes bf16 the default type while a model runs; sums of an attention have four bytes all the same.
        made = [call for call in ast.walk(ast.parse(SCRIPT.read_text())) if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
                and call.func.attr in ("empty", "zeros", "empty_permuted") and any(word.arg == "device" for word in call.keywords)]
        self.assertGreater(len(made), 8)
        self.assertEqual([call.lineno for call in made if not any(word.arg == "dtype" for word in call.keywords)], [])

    def test_a_part_of_a_job_is_not_left_where_its_script_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "one.ops.csv.gz")

            def record():
                path.write_text("a part")
                raise RuntimeError("it failed")

            with self.assertRaises(RuntimeError):
                record_without_gpu.record_whole(record, str(path))
            self.assertFalse(path.exists())
            record_without_gpu.record_whole(lambda: path.write_text("whole"), str(path))
            self.assertTrue(path.exists())

    def test_forked_recordings_are_waited_for_and_counted(self):
        rows = [["one.ops.csv.gz", "one.py"], ["two.ops.csv.gz", "two.py"], ["three.ops.csv.gz", "three.py"]]

        def fake(command, path):
            if command[0] == "two.py":
                raise RuntimeError("two does not run")
            Path(path).write_text(" ".join(command))

        with tempfile.TemporaryDirectory() as folder:
            listed = os.path.join(folder, "rows.list")
            Path(listed).write_text("".join(f"{folder}/{out} {script} --batch 2\n" for out, script in rows))
            with unittest.mock.patch.object(record_without_gpu, "record_script", fake), \
                    unittest.mock.patch.object(record_without_gpu, "import_libraries", lambda: None):
                self.assertEqual(record_without_gpu.record_list(listed, 2), 1)
            self.assertEqual(Path(folder, "three.ops.csv.gz").read_text(), "three.py --batch 2")
            self.assertFalse(Path(folder, "two.ops.csv.gz").exists())

    def test_stubs_build_and_answer(self):
        source = ROOT / "scripts" / "record" / "references" / "no_kernels.inc"
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "stubs.so")
            subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", library, "-x", "c", str(source), "-ldl"], check=True)
            stubs = ctypes.CDLL(library)
            count = ctypes.c_int(0)
            stubs.cudaOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(count), None, 256, 0)
            self.assertEqual(count.value, 8)
            self.assertEqual(stubs.__getattr__("__cudaLaunchKernel")(), 0)

    def test_handles_of_cublas_differ(self):
        with tempfile.TemporaryDirectory() as folder:
            source, library = os.path.join(folder, "one.c"), os.path.join(folder, "one.so")
            Path(source).write_text(f"int cublasCreate_v2{record_without_gpu.ANSWERS['cublasCreate_v2']}\n", encoding="utf-8")
            subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", "-o", library, source], check=True)
            stubs, handles = ctypes.CDLL(library), [ctypes.c_void_p(), ctypes.c_void_p()]
            for handle in handles:
                stubs.cublasCreate_v2(ctypes.byref(handle))
            self.assertNotEqual(handles[0].value, handles[1].value)


if __name__ == "__main__":
    unittest.main()
