#!/usr/bin/env python3
"""The version is CMake's: CITATION.cff, the newest heading of CHANGELOG.md and the manifests' images state the same."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NUMBER = r"(\d+\.\d+\.\d+)"


def stated(file, pattern):
    found = re.findall(pattern, (ROOT / file).read_text(), re.M)
    assert found, f"{file} states no version by the pattern {pattern}"
    return found


class Version(unittest.TestCase):
    def test_every_place_states_the_version_of_cmake(self):
        (version,) = stated("CMakeLists.txt", rf"^project\(allocmark VERSION {NUMBER} ")
        places = {"CITATION.cff": rf"^version: {NUMBER}$", "CHANGELOG.md": rf"\A(?:(?!^## ).*\n)*## {NUMBER}\b"}
        manifests = sorted((ROOT / "scripts/fleet/kubernetes").glob("*.yaml"))
        places |= {path.relative_to(ROOT).as_posix(): rf"image: allocmark:{NUMBER}$" for path in manifests if "image:" in path.read_text()}
        self.assertGreaterEqual(len(places), 6)
        (consumer,) = re.findall(r"^find_package\(allocmark (\S+) ", (ROOT / "tests/install/consumer/CMakeLists.txt").read_text(), re.M)
        self.assertTrue(version.startswith(consumer + "."), f"the consumer of the package asks for {consumer}")
        for file, pattern in places.items():
            with self.subTest(file):
                self.assertEqual(set(stated(file, pattern)), {version})


if __name__ == "__main__":
    unittest.main()
