#!/usr/bin/env python3
"""scripts/record/record_without_gpu.py: what it says where something is missing, and that its stubs build and answer. PyTorch is not needed."""
import ctypes
import os
import subprocess
import sys
import tempfile
import unittest
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
