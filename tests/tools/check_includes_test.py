"""Tests of tools/check_includes.py on small trees made for each case."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_includes.py"


class CheckIncludesTest(unittest.TestCase):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, TOOL, folder], capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
            self.assertEqual(done.returncode, 1 if done.stdout else 0)
            return done.stdout

    def assert_allowed(self, path, line, *others):
        self.assertEqual(self.run_on({path: line, **{name: "" for name in others}}), "")

    def assert_refused(self, path, line, reason, *others):
        self.assertIn(reason, self.run_on({path: line, **{name: "" for name in others}}))

    def test_public_headers_use_the_standard_library_and_themselves(self):
        self.assert_allowed("include/vmem/a.hpp", "#include <vector>\n#include <vmem/b.hpp>\n")
        self.assert_refused("include/vmem/a.hpp", "#include <span>\n", "C++17")
        self.assert_refused("include/vmem/a.hpp", "#include <unistd.h>\n", "standard library alone")
        self.assert_refused("include/vmem/a.hpp", "#include <hwloc.h>\n", "may not use hwloc")
        self.assert_refused("include/vmem/a.hpp", "#include <cuda.h>\n", "may not use CUDA")
        self.assert_refused(
            "include/vmem/a.hpp", '#include "runtime/memory/a.hpp"\n', "nothing of the tree", "runtime/memory/a.hpp")

    def test_stages_include_those_below_them(self):
        self.assert_allowed("runtime/memory/a.cpp", '#include "runtime/topology/b.hpp"\n', "runtime/topology/b.hpp")
        self.assert_refused(
            "runtime/topology/a.cpp", '#include "runtime/memory/b.hpp"\n', "may not include runtime/memory",
            "runtime/memory/b.hpp")
        self.assert_refused(
            "runtime/support/a.cpp", '#include "runtime/pool/b.hpp"\n', "may not include runtime/pool", "runtime/pool/b.hpp")

    def test_transfer_sees_the_plan_alone_of_residency(self):
        self.assert_allowed("runtime/transfer/a.cpp", '#include "runtime/residency/plan.hpp"\n', "runtime/residency/plan.hpp")
        self.assert_refused(
            "runtime/transfer/a.cpp", '#include "runtime/residency/table.hpp"\n', "may not include", "runtime/residency/table.hpp")

    def test_each_library_belongs_to_its_stage(self):
        self.assert_allowed("runtime/transfer/a.cpp", "#include <oneapi/tbb/flow_graph.h>\n")
        self.assert_refused("runtime/memory/a.cpp", "#include <tbb/flow_graph.h>\n", "may not use oneTBB")
        self.assert_refused("runtime/pool/a.cpp", "#include <spdlog/spdlog.h>\n", "may not use spdlog")

    def test_backends_see_support_and_kernels_only(self):
        self.assert_allowed(
            "backends/host/a.cpp", '#include "backends/kernels/k.hpp"\n#include "backends/host/b.hpp"\n',
            "backends/kernels/k.hpp", "backends/host/b.hpp")
        self.assert_refused(
            "backends/host/a.cpp", '#include "runtime/memory/b.hpp"\n', "may not include", "runtime/memory/b.hpp")
        for one, other in (("host", "cuda"), ("cuda", "rocm"), ("nvme", "host")):
            self.assert_refused(
                f"backends/{one}/a.cpp", f'#include "backends/{other}/b.hpp"\n', "may not include", f"backends/{other}/b.hpp")
        self.assert_refused("backends/kernels/k.hpp", "#include <unistd.h>\n", "standard library alone")

    def test_the_command_and_the_examples_see_the_public_headers_only(self):
        self.assert_allowed("tools/vmem/main.cpp", '#include <CLI/CLI.hpp>\n#include "vmem_commit.hpp"\n')
        for folder in ("tools/vmem", "tests/examples"):
            self.assert_refused(
                f"{folder}/main.cpp", '#include "runtime/support/a.hpp"\n', "may not include", "runtime/support/a.hpp")

    def test_tests_may_include_anything(self):
        self.assert_allowed("tests/unit/memory/a_test.cpp", "#include <gtest/gtest.h>\n#include <hwloc.h>\n")

    def test_includes_are_written_from_the_root(self):
        self.assert_refused("runtime/memory/a.cpp", '#include "b.hpp"\n', "from its root", "runtime/memory/b.hpp")
        self.assert_refused("runtime/memory/a.cpp", '#include "vmem/types.hpp"\n', "<vmem/...>")

    def test_a_new_folder_needs_a_rule(self):
        self.assert_refused("runtime/novel/a.cpp", "#include <vector>\n", "no rule covers")

    def test_the_place_is_named(self):
        self.assert_refused("runtime/memory/a.cpp", "\n\n#include <tbb/a.h>\n", "runtime/memory/a.cpp:3: tbb/a.h")


if __name__ == "__main__":
    unittest.main()
