"""Tests of tools/install_dependencies and tools/steps, with a package system made up for each case."""
import os
import shutil
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
# What the scripts themselves need of the system.
SYSTEM_COMMANDS = "bash env dirname mkdir mv cat grep sed sort find cut head tail rm ln readlink id uname printf touch".split()


class InstallDependenciesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        (self.root / "tools").mkdir()
        for tool in ("install_dependencies", "steps"):
            shutil.copy(TOOLS / tool, self.root / "tools")
        self.bin = self.root / "bin"
        self.bin.mkdir()
        # Never in the folder of links, where writing would go through to the system's own commands.
        self.made_up = self.root / "made_up"
        self.made_up.mkdir()
        self.path = f"{self.made_up}:{self.bin}"
        for command in SYSTEM_COMMANDS:
            if path := shutil.which(command, path="/usr/bin:/bin"):
                (self.bin / command).symlink_to(path)

    def command(self, name, script):
        path = self.made_up / name
        path.write_text(f"#!/usr/bin/env bash\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run_tool(self, *arguments, **environment):
        return subprocess.run(
            [self.root / "tools/install_dependencies", *arguments], capture_output=True, text=True,
            env={"PATH": self.path, "HOME": self.folder.name, **environment})

    @property
    def environment(self):
        return (self.root / "build/deps/environment").read_text()

    def test_an_unknown_set_is_refused(self):
        done = self.run_tool("everything")
        self.assertEqual(done.returncode, 1)
        self.assertIn("unknown set 'everything'", done.stderr)

    def test_without_apt_the_packages_are_named(self):
        done = self.run_tool("build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no apt-get", done.stderr)
        self.assertIn("libtbb-dev", done.stderr)
        self.assertIn("VMEM_INSTALL=no", done.stderr)

    def test_nothing_is_installed_on_request(self):
        done = self.run_tool("build", VMEM_INSTALL="no")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.environment, "")

    def test_what_is_there_is_not_installed_again(self):
        self.command("apt-get", "exit 99")
        self.command("dpkg-query", "echo -n installed")
        done = self.run_tool("build", "test")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("packages are installed", done.stdout)

    def test_root_reads_the_lists_when_the_first_try_fails(self):
        self.command("id", "echo 0")
        self.command("dpkg-query", "exit 1")
        self.command("apt-get", f'echo "$*" >>{self.root}/calls; case "$*" in *update*) touch {self.root}/lists;; esac; [ -e {self.root}/lists ]')
        done = self.run_tool("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = (self.root / "calls").read_text().splitlines()
        self.assertEqual(["install" in call for call in calls], [True, False, True])

    def test_a_failing_install_tells_its_last_lines(self):
        self.command("id", "echo 0")
        self.command("dpkg-query", "exit 1")
        self.command("apt-get", 'echo "E: no route to the archive"; case "$*" in *update*) exit 0;; esac; exit 100')
        done = self.run_tool("build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E: no route to the archive", done.stderr)

    def unpacking(self):
        """A package system of one package, foo-dev, whose files name absolute places."""
        self.command("id", "echo 1000")
        self.command("dpkg-query", "exit 1")
        self.command("apt-get", f"""
            echo "$*" >>{self.root}/calls
            case "$*" in
              *--simulate*) echo 'Inst libc6 [1] (2 Made:1 [amd64])'; echo 'Inst foo-dev (1.0 Made:1 [amd64])' ;;
              *download*) for last in "$@"; do :; done; >"$last.deb" ;;
            esac""")
        self.command("dpkg", f"""
            echo "$*" >>{self.root}/unpacked
            lib=$3/usr/lib/$(uname -m)-linux-gnu; mkdir -p "$lib/pkgconfig" "$3/usr/include"
            echo 'prefix=/usr' >"$lib/pkgconfig/foo.pc"
            echo 'GROUP ( /nowhere/usr.a /usr/lib/foo_nonshared.a )' >"$lib/libfoo.so"
            echo >"$3/usr/lib/foo_nonshared.a\"""")

    def test_without_root_packages_are_unpacked_and_their_paths_corrected(self):
        self.unpacking()
        done = self.run_tool("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        tree = self.root / "build/deps/root"
        library_dir = next((tree / "usr/lib").glob("*-linux-gnu"))
        self.assertEqual((library_dir / "pkgconfig/foo.pc").read_text(), f"prefix={tree}/usr\n")
        self.assertEqual((library_dir / "libfoo.so").read_text(), f"GROUP ( /nowhere/usr.a {tree}/usr/lib/foo_nonshared.a )\n")
        for name in ("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPLUS_INCLUDE_PATH", "CMAKE_PREFIX_PATH", "PKG_CONFIG_PATH"):
            self.assertIn(f"export {name}='{tree}", self.environment)
        self.assertNotIn("libc6", (self.root / "unpacked").read_text())

    def test_a_second_run_downloads_nothing(self):
        self.unpacking()
        self.run_tool("build")
        (self.root / "calls").write_text("")
        done = self.run_tool("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("download", (self.root / "calls").read_text())

    def test_sudo_is_used_only_where_it_asks_for_nothing(self):
        self.unpacking()
        self.command("sudo", "exit 1")
        self.assertIn("no root here", self.run_tool("build").stdout)
        self.command("sudo", f'[ "$2" = true ] || echo "$*" >>{self.root}/sudo')
        self.assertEqual(self.run_tool("build").returncode, 0)
        self.assertIn("apt-get", (self.root / "sudo").read_text())

    def run_step(self, script):
        return subprocess.run(
            ["bash", "-c", f"set -euo pipefail; steps=2; . tools/steps; {script}"], cwd=self.root, capture_output=True, text=True,
            env={"PATH": self.path})

    def test_a_failed_step_says_what_and_where(self):
        done = self.run_step('step "First" printf fine; step "Second" bash -c "echo the reason; exit 7"; echo not reached')
        self.assertEqual(done.returncode, 7)
        self.assertIn("[1/2] First", done.stdout)
        self.assertNotIn("not reached", done.stdout)
        for part in ("step 2 failed with exit status 7", "| the reason", "build/step-2.log", "again"):
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main()
