#!/usr/bin/env python3
"""Tests of tools/bench/check_results.py: `check_results_test.py`."""
import copy
import importlib.util
import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "bench"))
sys.dont_write_bytecode = True
import check_results  # noqa: E402

SCHEMA = ROOT / "tools" / "bench" / "results.schema.json"
GOOD = {
    "schema_version": 1,
    "vmem": "0.1.0",
    "commit": "abc",
    "command": "vmem bench",
    "machine": {"cpu": "a", "cores": 2, "memory_bytes": 1, "kernel": "Linux", "system": "b"},
    "results": [
        {
            "name": "copy",
            "pattern": "copy",
            "from": "a",
            "to": "b",
            "bytes": 100,
            "seconds": 2.0,
            "samples": [1.0, 2.0, 4.0],
            "bytes_per_second": 50.0,
            "reference": {"name": "memcpy", "bytes_per_second": 100.0, "samples": [1.0, 1.0, 3.0]},
            "ratio": 0.5,
            "verified": True,
            "simulated": True,
        },
        {
            "name": "acquire",
            "pattern": "acquire",
            "threads": 1,
            "operations": 10,
            "seconds": 1.0,
            "samples": [1.0],
            "operations_per_second": 10.0,
            "reference": {"name": "mutex", "operations_per_second": 5.0, "samples": [2.0]},
            "ratio": 2.0,
            "reach": {"ratio": 1.0},
            "reached": True,
        },
    ],
    "bookkeeping": {
        "buffer_bytes": 2**40,
        "untouched_bookkeeping_bytes": 10,
        "points": [{"touched_bytes": 2**30, "bookkeeping_bytes": 30}],
        "bookkeeping_bytes_per_gib_touched": 20.0,
    },
}


def problems(change):
    document = copy.deepcopy(GOOD)
    change(document)
    return list(check_results.check(json.dumps(document), SCHEMA))


class CheckResultsTest(unittest.TestCase):
    def test_accepts_figures_that_follow_from_their_samples(self):
        self.assertEqual(problems(lambda document: None), [])

    def assert_found(self, word, change):
        found = problems(change)
        self.assertTrue(any(word in line for line in found), found)

    def test_finds_each_figure_that_does_not(self):
        self.assert_found("ratio", lambda d: d["results"][0].update(ratio=0.51))
        self.assert_found("bytes_per_second", lambda d: d["results"][0].update(bytes_per_second=51.0))
        self.assert_found("seconds", lambda d: d["results"][0].update(seconds=1.0))
        self.assert_found("memcpy", lambda d: d["results"][0]["reference"].update(bytes_per_second=99.0))
        self.assert_found("operations_per_second", lambda d: d["results"][1].update(operations_per_second=11.0))
        self.assert_found("reached", lambda d: d["results"][1].update(reached=False))
        self.assert_found("of the reference", lambda d: d["results"][1]["reference"].update(samples=[2.0, 2.0]))
        self.assert_found("bookkeeping", lambda d: d["bookkeeping"].update(bookkeeping_bytes_per_gib_touched=21.0))

    def test_finds_what_the_form_does_not_allow(self):
        self.assert_found("commit", lambda d: d.pop("commit"))
        self.assert_found("results", lambda d: d.update(results={}))
        self.assert_found("none", lambda d: d.update(results=[]))
        self.assertIn("no JSON", next(check_results.check("{", SCHEMA)))
        self.assertIn("no object", next(check_results.check("[]", SCHEMA)))

    @unittest.skipUnless(importlib.util.find_spec("jsonschema"), "needs python3-jsonschema")
    def test_the_schema_finds_wrong_kinds(self):
        self.assert_found("verified", lambda d: d["results"][0].update(verified="yes"))
        self.assert_found("cores", lambda d: d["machine"].update(cores=0))

    def test_committed_results_are_right(self):
        files = sorted((ROOT / "tools" / "bench" / "results").glob("*.json"))
        for file in files:
            with self.subTest(file=file.name):
                self.assertEqual(list(check_results.check(file.read_text(encoding="utf-8"), SCHEMA)), [])


if __name__ == "__main__":
    unittest.main()
