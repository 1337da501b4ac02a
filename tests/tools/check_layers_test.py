"""Shows that tools/check_layers.py finds each thing it promises to find, and nothing in a tree that is right."""
import importlib.util
import pathlib
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("check_layers", ROOT / "tools/check_layers.py")
check_layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_layers)

GOOD = {
    "src/LAYERS": "# comment\nlow:\nlow/fast: low\nmid: low\nhigh/factory.cc: mid low low/fast\nhigh: mid low\n",
    "src/low/CMakeLists.txt": "kvasir_library(low LIBS fmt::fmt)\n",
    "src/low/a.h": "#pragma once\n#include <vector>\n",
    "src/low/fast/b.cc": '#include "low/fast/b.h"\n#include "low/a.h"\n',
    "src/low/fast/b.h": "",
    "src/mid/CMakeLists.txt": "kvasir_library(mid DEPS low)\n",
    "src/mid/c.h": '#include "low/a.h"\n',
    "src/high/CMakeLists.txt": "kvasir_library(high DEPS mid)\n",
    "src/high/d.cc": '  #  include "mid/c.h"\n#include "low/a.h"\n',
    "src/high/factory.cc": '#include "low/fast/b.h"\n',
    "src/main.cc": '#include "low/fast/b.h"\n',
}


class CheckLayersTest(unittest.TestCase):
    def findings(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**GOOD, **changes}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_layers.check(root)

    def assert_one(self, changes, *words):
        found = self.findings(changes)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_a_right_tree_has_no_findings(self):
        self.assertEqual(self.findings({}), [])

    def test_include_of_a_higher_layer(self):
        self.assert_one({"src/low/e.cc": '#include "mid/c.h"\n'}, "src/low/e.cc:1", "low may not include mid")

    def test_include_of_a_subfolder_that_is_its_own_layer(self):
        self.assert_one({"src/low/e.cc": '#include "low/fast/b.h"\n'}, "low may not include low/fast")
        self.assert_one({"src/high/e.cc": '#include "low/fast/b.h"\n'}, "high may not include low/fast")

    def test_include_that_is_not_a_file_of_src(self):
        self.assert_one({"src/mid/e.cc": '#include "c.h"\n'}, "src/mid/e.cc:1", '"c.h" is not a file')

    def test_unknown_folder(self):
        self.assert_one({"src/new/e.cc": ""}, "folder new is not in src/LAYERS")

    def test_layer_allowed_before_it_is_listed(self):
        layers = GOOD["src/LAYERS"].replace("low:\n", "low: mid\n", 1)
        self.assertIn("does not come before it", " ".join(self.findings({"src/LAYERS": layers})))

    def test_dependency_that_layers_do_not_allow(self):
        self.assertIn("src/low/CMakeLists.txt: DEPS mid is not allowed by src/LAYERS",
                      self.findings({"src/low/CMakeLists.txt": "kvasir_library(low DEPS mid)\n"}))

    def test_dependency_that_is_missing(self):
        self.assertIn("src/mid/CMakeLists.txt: src/LAYERS allows low, DEPS do not reach it",
                      self.findings({"src/mid/CMakeLists.txt": "kvasir_library(mid)\n"}))

    def test_long_files(self):
        self.assertEqual(self.findings({"src/low/e.cc": "//\n" * 600}), [])
        self.assert_one({"src/low/e.cc": "//\n" * 601}, "src/low/e.cc: 601 lines", "Over 600 lines because")
        excused = "// A table.\n// Over 600 lines because it is one table.\n"
        self.assertEqual(self.findings({"src/low/e.cc": excused + "\n" * 700}), [])
        self.assert_one({"src/low/e.cc": excused + "\n" * 1000}, "the limit is 1000")
        self.assert_one({"tools/e.py": '"""A tool."""\n' + "\n" * 700}, "tools/e.py")


if __name__ == "__main__":
    unittest.main()
