#!/usr/bin/env python3
"""What CTest's result file says: "TESTS FAILURES SKIPPED" in the first line, then a line for each skipped test with the cause
that it printed. Usage: ctest_summary.py FILE"""
import sys
import xml.etree.ElementTree as ElementTree


def main(path):
    suite = ElementTree.parse(path).getroot()
    print(suite.get("tests"), suite.get("failures"), suite.get("skipped"))
    for case in suite.iter("testcase"):
        if case.find("skipped") is None:
            continue
        words = (case.findtext("system-out") or "").split("\n")
        cause = next((line.strip() for line in reversed(words) if line.strip()), "it says no cause")
        name = case.get("name")
        print(f"{name}: {cause.removeprefix(name + ':').strip().removeprefix('skipped:').strip()}")


if __name__ == "__main__":
    main(sys.argv[1])
