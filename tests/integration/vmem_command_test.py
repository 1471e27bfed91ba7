#!/usr/bin/env python3
"""Tests of the vmem command as a user meets it: `vmem_command_test.py VMEM [unittest arguments]`."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VMEM = ""
TOPOLOGY = {
    "version": 1,
    "simulated_devices": [
        {"name": "sim:0", "vendor": "one", "capacity": "64MiB", "granularity": "64KiB"},
        {"name": "sim:1", "vendor": "two", "capacity": "64MiB", "granularity": "64KiB"},
    ],
}


def vmem(*arguments, **environment):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("VMEM_") or key == "VMEM_BACKEND_DIR"}
    return subprocess.run(
        [VMEM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, env={**clean, **environment}
    )


class VmemCommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.topology = self.folder / "topology.json"
        self.topology.write_text(json.dumps(TOPOLOGY), encoding="utf-8")
        self.input = self.folder / "input"
        self.input.write_bytes(bytes(range(256)) * 1000)

    def bench(self, *arguments, **environment):
        small = ("bench", "--quick", "--size", "3MiB", "--samples", 1, "--input", self.input)
        return vmem(*small, *arguments, **environment)

    def test_help_names_the_commands(self):
        answer = vmem("--help")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("bench", answer.stdout)
        self.assertIn("topo", answer.stdout)
        for command in ("bench", "topo"):
            self.assertEqual(vmem(command, "--help").returncode, 0)
        for option in ("--input", "--topology", "--size", "--device", "--pattern", "--seed", "--samples", "--json", "--quick"):
            self.assertIn(option, vmem("bench", "--help").stdout)

    def test_version(self):
        answer = vmem("--version")
        self.assertEqual(answer.returncode, 0)
        self.assertRegex(answer.stdout, r"^vmem \d+\.\d+\.\d+ \(\S+\)\n$")

    def test_wrong_usage_exits_2_and_says_what_is_wrong(self):
        for arguments, word in (
            ((), "subcommand"),
            (("benhc",), "benhc"),
            (("bench", "--qiuck"), "--qiuck"),
            (("bench", "--samples", "some"), "--samples"),
            (("bench", "--samples", "0"), "--samples"),
            (("bench", "--seed", "-1"), "--seed"),
            (("bench", "--pattern", "zigzag"), "zigzag"),
            (("bench", "--size", "0"), "--size"),
            (("bench", "--input", "/no/such/path"), "/no/such/path"),
            (("bench", "--topology", "/no/such/file"), "/no/such/file"),
            (("bench", "--device", "cuda:99"), "cuda:99"),
            (("topo", "--no-such-option"), "--no-such-option"),
        ):
            answer = vmem(*arguments)
            self.assertEqual(answer.returncode, 2, (arguments, answer))
            self.assertIn(word, answer.stdout + answer.stderr, arguments)

    def test_a_wrong_environment_is_named(self):
        answer = self.bench(VMEM_HOST_LIMIT="plenty")
        self.assertEqual(answer.returncode, 2, answer)
        self.assertIn("VMEM_HOST_LIMIT", answer.stderr)

    def test_bench_writes_results_that_pass_the_check(self):
        results = self.folder / "results.json"
        answer = self.bench("--topology", self.topology, "--json", results)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        check = [sys.executable, ROOT / "tools" / "bench" / "check_results.py", results]
        checked = subprocess.run(check, capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        document = json.loads(results.read_text(encoding="utf-8"))
        self.assertTrue(document["command"].startswith("vmem bench --quick"))
        self.assertTrue(all(result["verified"] for result in document["results"]))
        self.assertNotIn("\x1b", answer.stdout + answer.stderr)

    def test_the_topology_may_come_from_the_environment(self):
        answer = self.bench("--pattern", "sequential", VMEM_TOPOLOGY=str(self.topology))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("sim:1", answer.stdout)
        self.assertNotIn("sim:2", answer.stdout)

    def test_a_mismatch_exits_1_and_names_the_place(self):
        topology = json.loads(json.dumps(TOPOLOGY))
        fault = {"kind": "corrupt", "call": "copy_from_host", "after": 2, "count": 1000000}
        topology["simulated_devices"][0]["faults"] = [fault]
        self.topology.write_text(json.dumps(topology), encoding="utf-8")
        answer = self.bench("--topology", self.topology, "--pattern", "sequential", "--device", "sim:0")
        self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
        self.assertRegex(answer.stderr, r"buffer 'main' at 0x[0-9a-f]+: block \d+, offset \d+: expected 0x..")

    def test_topo_shows_the_devices_of_a_file(self):
        answer = vmem("topo", "--topology", self.topology)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("sim:1", answer.stdout)
        answer = vmem("topo", "--topology", self.topology, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        names = [device["name"] for device in json.loads(answer.stdout)["devices"]]
        self.assertIn("sim:0", names)


if __name__ == "__main__":
    VMEM = sys.argv.pop(1)
    unittest.main()
