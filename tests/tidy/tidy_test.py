#!/usr/bin/env python3
"""Tests the tidy check on small trees: each kind of violation is reported, its good twin is not."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import cpp_text  # noqa: E402
from tidy import Tidy  # noqa: E402

ROOMS = {  # room: what it may include
    "proxy/base": "", "policy": "proxy/base", "filters/ledger": "policy",
    "filters": "filters/ledger", "filters/retry": "filters filters/ledger",
    "filters/saga": "filters",
    "filters/ledger/lmdb": "filters/ledger", "filters/ledger/memory": "filters/ledger",
    "proxy/net": "filters", "proxy/process": "filters/ledger/lmdb filters/retry proxy/net",
    "proxy": "proxy/process",
}  # fmt: skip
UNUSED = ": take that away"
CMAKE = """
recourse_test(base recourse_base)
recourse_test(ledger recourse_ledger)
add_executable(micro_bench *_bench.cpp)
add_executable(loadgen loadgen.cpp)
"""


def header(body=""):
    return f"#pragma once\n{body}\n"


def function(lines):
    return "void F(int a) {\n" + "  G();\n" * (lines - 2) + "}\n"


def rooms(more=()):
    """As the list has them, each on a level of its own."""
    rows = {**ROOMS, **dict(more)}
    return "# level\n" + "".join(
        f"{level}\tall\t{room}\t*\t{uses}\n" for level, (room, uses) in enumerate(rows.items(), 1)
    )


def violations_of(files, is_used_up=False):
    with tempfile.TemporaryDirectory() as root:
        for room in ROOMS:
            os.makedirs(os.path.join(root, room), exist_ok=True)
        for path, text in {"CMakeLists.txt": CMAKE, "proxy/rooms.tsv": rooms(), **files}.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        # These trees are too small to use what their list allows.
        return [line for line in Tidy(root).run() if is_used_up or UNUSED not in line]


# (what it shows, path, bad text, part of the message, path of the good twin, good text)
CASES = [
    ("policy may not include filters", "policy/a.h", header('#include "filters/filter.h"'),
     "policy may not include filters: go through a room of proxy/rooms.tsv",
     "policy/a.h", header('#include "proxy/base/error.h"')),
    ("base includes nothing of ours", "proxy/base/a.h", header('#include "policy/policy.h"'),
     "proxy/base may not include policy", "proxy/base/a.h", header('#include "proxy/base/b.h"')),
    ("interfaces may not include a filter", "filters/a.h", header('#include "filters/retry/r.h"'),
     "filters may not include filters/retry",
     "filters/a.h", header('#include "filters/ledger/event.h"')),
    ("filters do not know each other", "filters/retry/a.cpp", '#include "filters/saga/s.h"\n',
     "filters/retry may not include filters/saga", "filters/retry/a.cpp",
     '#include "filters/retry/s.h"\n'),
    ("filters know no protocol", "filters/retry/a.cpp", "if (backend.is_mcp()) F();  // memcpy\n",
     "'mcp' may not stand here: put what differs between protocols into a Codec",
     "policy/a.cpp", "if (backend.is_mcp()) F();\n"),
    ("an exchange knows no protocol", "proxy/exchange/a.h", header("bool is_mcp;"),
     "'mcp' may not stand here", "proxy/mcp/a.h", header("bool is_mcp;")),
    ("the ledger knows no protocol", "filters/ledger/model/a.h", header("// Of an MCP tool."),
     "'MCP' may not stand here", "filters/mcp/a.h", header("// Of an MCP tool.")),
    ("the network knows no protocol", "proxy/net/a.cpp", "// A GraphQL call.\n",
     "'GraphQL' may not stand here", "proxy/net/a.cpp", "memcpy(a, b, 1);\n"),
    ("filters know no ledger store", "filters/retry/a.h",
     header('#include "filters/ledger/lmdb/l.h"'), "may not include filters/ledger/lmdb",
     "filters/retry/a.h", header('#include "filters/ledger/ledger.h"')),
    ("the ledger knows no store", "filters/ledger/a.h",
     header('#include "filters/ledger/lmdb/l.h"'), "may not include filters/ledger/lmdb",
     "proxy/process/a.h", header('#include "filters/ledger/lmdb/l.h"')),
    ("net knows no filter", "proxy/net/a.cpp", '#include "filters/retry/r.h"\n',
     "proxy/net may not", "proxy/process/a.cpp", '#include "filters/retry/r.h"\n'),
    ("net does not know the server", "proxy/net/a.cpp", '#include "proxy/process/runtime.h"\n',
     "proxy/net may not", "proxy/main.cpp", '#include "proxy/process/runtime.h"\n'),
    ("LMDB has one home", "filters/ledger/memory/a.cpp", "#include <lmdb.h>\n",
     "lmdb.h may not be included", "filters/ledger/lmdb/a.cpp", "#include <lmdb.h>\n"),
    ("Asio has its homes", "filters/a.h", header("#include <boost/asio/post.hpp>"),
     "boost/asio/post.hpp may not", "proxy/net/a.h", header("#include <boost/asio/post.hpp>")),
    ("Beast has its homes", "policy/a.cpp", "#include <boost/beast.hpp>\n",
     "boost/beast.hpp may not", "proxy/net/a.cpp", "#include <boost/beast.hpp>\n"),
    ("YAML has one home", "filters/a.cpp", "#include <yaml-cpp/yaml.h>\n",
     "yaml-cpp/yaml.h may not", "policy/a.cpp", "#include <yaml-cpp/yaml.h>\n"),
    ("the product knows no test", "policy/a.cpp", '#include "tests/support/x.h"\n',
     "tests/support/x.h may not", "tests/base/a.cpp", '#include "tests/support/x.h"\n'),
    ("no relative includes", "policy/a.cpp", '#include "../proxy/base/error.h"\n',
     "../proxy/base/error.h may not", "policy/a.cpp", '// #include "../proxy/base/error.h"\n'),
    ("long line", "policy/a.cpp", "// " + "x" * 98 + "\n", "line of 101 columns",
     "policy/a.cpp", "// " + "x" * 97 + "\n"),
    ("long file", "policy/a.cpp", "//\n" * 501, "file of 501 lines", "policy/a.cpp", "//\n" * 500),
    ("long function", "policy/a.cpp", function(71), "function of 71 lines",
     "policy/a.cpp", function(70)),
    ("long Python function", "tests/e2e/a.py", "def f():\n" + "    g()\n" * 70,
     "function of 71 lines", "tests/e2e/a.py", "def f():\n" + "    g()\n" * 69),
    ("sleeping", "filters/a.cpp", "void F() { std::this_thread::sleep_for(x); }\n",
     "Timer::SleepUntil", "filters/a.cpp", "// std::this_thread::sleep_for(x)\n"),
    ("sleeping in C", "tests/base/a.cpp", "void F() { ::sleep(1); }\n", "Timer::SleepUntil",
     "tests/base/a.cpp", "void F() { clock.sleep(1); }\n"),
    ("sleeping in Python", "tests/e2e/a.py", "def f():\n    time.sleep(1)\n", "by wait_until()",
     "tests/e2e/support/waiting.py", "def f():\n    time.sleep(1)\n"),
    ("sleeping in Python under a short name", "tests/helm/a.py", "from time import sleep, time\n",
     "'time.sleep' may not", "tests/e2e/clients/a.py", "from time import sleep\n"),
    ("sleeping in Python's support", "tests/e2e/support/a.py", "time.sleep(1)\n", "by wait_until()",
     "tests/e2e/support/a.py", "x = 'time.sleep'  # time.sleep(1)\ny.time.sleep(1)\n"),
    ("log level", "tests/base/a.cpp", "void F() { SetLogLevel(LogLevel::kError); }\n", "a QuietLog",
     "proxy/main.cpp", "void F() { SetLogLevel(LogLevel::kError); }\n"),
    ("environment", "policy/a.cpp", 'auto x = std::getenv("A");\n', "from the configuration",
     "proxy/main.cpp", 'auto x = std::getenv("A");\n'),
    ("monotonic clock", "policy/a.cpp", "auto x = std::chrono::steady_clock::now();\n",
     "call Now()", "proxy/base/clock.h",
     header("auto x = std::chrono::steady_clock::now();")),
    ("wall clock", "tests/base/a.cpp", "auto x = std::chrono::system_clock::now();\n",
     "call WallNow()", "policy/a.cpp", 'auto x = "system_clock::now()";\n'),
    ("a packed id as text", "filters/retry/a.cpp", "auto x = std::to_string(last.operation);\n",
     "told by PrintRowId", "filters/retry/a.cpp", "auto x = PrintRowId(last.operation);\n"),
    ("a packed id in JSON", "filters/retry/a.cpp", 'json.Number("event_id", event.id);\n',
     "told by PrintRowId", "filters/retry/a.cpp",
     'json.Raw("event_id", RowIdJson(event.id));\n'),
    ("a packed id in a sentence", "filters/retry/a.cpp",
     'auto x = fmt::format("{} of {}", name,\n                     step->operation);\n',
     "told by PrintRowId", "filters/retry/a.cpp",
     'auto x = fmt::format("{} of {}", name, PrintRowId(step->operation));\n'),
    ("randomness", "policy/a.cpp", "std::random_device device;\n", "take a Random",
     "proxy/base/random.cpp", "std::random_device device;\n"),
    ("a piece of JSON", "policy/a.cpp", 'auto x = "{\\"a\\":" + value\n         + "}";\n',
     "write it with JsonObject", "policy/a.cpp",
     'auto x = "such as {\\"a\\": "\n         "\\"b\\"}";\n'),
    ("JSON of fmt", "policy/a.cpp", 'auto x = fmt::format(R"({{"a":{}}})", value);\n',
     "write it with JsonObject", "policy/a.cpp", 'auto x = R"({"a":{}})";\n'),
    ("threads", "policy/a.cpp", "std::thread worker;\n", "post to an Executor",
     "policy/a.cpp", "std::thread::id id;\n"),
    ("using-directive", "policy/a.cpp", "using namespace std;\n", "write `using a::b;`",
     "policy/a.cpp", "using namespace std::chrono_literals;\n"),
    ("unbounded copy", "policy/a.cpp", "void F() { strcpy(a, b); }\n", "use fmt and std::string",
     "policy/a.cpp", "void F() { my_strcpy(a, b); }\n"),
    ("numbers without errors", "policy/a.cpp", "int x = std::stoi(text);\n", "std::from_chars",
     "policy/a.cpp", "int x = Histoi(text);\n"),
    ("assert", "policy/a.cpp", "void F() { assert(x); }\n", "use RC_CHECK",
     "policy/a.cpp", "static_assert(x);\n"),
    ("regular expressions", "policy/a.cpp", "#include <regex>\n", "never need a regular",
     "policy/a.cpp", "#include <string>\n"),
    ("one processor's instructions", "policy/a.cpp", "#include <emmintrin.h>\n", "goes without",
     "policy/a.cpp", "#if defined(__SSE2__)\n#include <emmintrin.h>\n#endif\n"),
    ("weak durability", "filters/ledger/lmdb/a.cpp", "int x = MDB_NOSYNC;\n", "default sync mode",
     "filters/ledger/lmdb/a.cpp", "int x = MDB_CREATE;\n"),
    ("thread-local state", "policy/a.cpp", "thread_local int x;\n", "through the constructor",
     "policy/a.cpp", "int thread_locality;\n"),
    ("unowned tasks", "proxy/net/a.cpp", "spawn(asio::detached);\n", "an owner that waits",
     "proxy/net/a.cpp", "spawn(owner.detached_count);\n"),
    ("pragma once", "policy/a.h", "int x;\n", "without #pragma once", "policy/a.h", header()),
    ("unfinished work", "policy/a.cpp", "// TO" "DO later\n", "number of an issue",
     "policy/a.cpp", "// TO" "DO(#12) later\n"),
    ("paths of a machine", "README.md", "see /wo" "rk/x\n", "no path of one machine",
     "README.md", "see /workers/x\n"),
    ("a link to no file", "helm/a.md", "[x](b.md)\n", "leads nowhere",
     "helm/a.md", "[x](a.md), [y](https://y.example/z.md)\n```\n[z](c.md)\n```\n"),
    ("a link to no heading", "helm/a.md", "## B's `c`\n[x](#b-c)\n", "leads nowhere",
     "helm/a.md", "## B's `c`\n[x](#bs-c), [y](a.md#bs-c)\n"),
    ("long prose", "helm/a.md", "x " * 61 + "\n", "line of 122 columns",
     "helm/a.md", "x " * 60 + "\n| " + "x" * 130 + " |\n```\n" + "x" * 130 + "\n```\n"),
    ("a page that is none", "policy/a.h", header("// As http.md 3 says."), "http.md is no page",
     "policy/a.h", header("// As https://x.example/http.md 3 says; *.md, $NAME.md, {x}/a.md")),
    ("a page that stands elsewhere", "helm/a.md", "see `sub/a.md`\n", "sub/a.md is no page",
     "helm/a.md", "see `a.md`, `helm/a.md`, `./a.md`, [x](a.md)\n"),
    ("a page in a string", "tests/e2e/a.py", "x = 'policy/b.md'\n", "policy/b.md is no page",
     "tests/e2e/a.py", "x = page.md(1) + 'a.md5'\n"),
    ("a section of no page", "policy/a.cpp", "// the key (design 4)\n", "state the rule itself",
     "policy/a.cpp", "// the design of 4 keys\n"),
    ("a link to no anchor", "helm/a.md", '<a id="b-d"></a>\n[x](#b-c)\n', "leads nowhere",
     "helm/a.md", '| <a id="b-c"></a>`b` |\n[x](#b-c)\n'),
    ("unknown top level", "docs/a.md", "x\n", "the top level is fixed", "helm/a.md", "x\n"),
    ("source that nobody builds", "policy/sub/a.cpp", "int x;\n", "policy/sub is no room",
     "policy/a.cpp", "int x;\n"),
    ("test that nobody builds", "tests/lost/a.cpp", "int x;\n", "no CMakeLists.txt builds",
     "tests/ledger/a.cpp", "int x;\n"),
    ("benchmark that nobody builds", "bench/other.cpp", "int x;\n", "no CMakeLists.txt builds",
     "bench/key_bench.cpp", "int x;\n"),
    ("broken Python", "tests/e2e/a.py", "def f(:\n", "not Python", "tests/e2e/a.py", "f = 1\n"),
]


class TidyTest(unittest.TestCase):

    def test_each_violation_is_reported_at_its_file(self):
        for name, path, bad, message, _, _ in CASES:
            with self.subTest(name):
                found = violations_of({path: bad})
                self.assertTrue(any(message in line for line in found), found)
                self.assertTrue(all(path.split("/")[0] in line for line in found), found)

    def test_the_good_twin_of_each_violation_is_silent(self):
        for name, _, _, _, path, good in CASES:
            with self.subTest(name):
                self.assertEqual(violations_of({path: good}), [])

    def test_a_violation_names_its_line(self):
        found = violations_of({"policy/a.cpp": "int x;\n/* \n */\nusing namespace std;\n"})
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("policy/a.cpp:4: "), found)

    def test_two_types_of_one_name_are_reported(self):
        def space(body, name="recourse "):
            return f"namespace {name}{{\n{body}\n}}  // namespace\n"

        first = header(space("enum class Verdict : int {\n  kA,\n};\nclass Told;"))
        for path, second, is_bad in (
            ("proxy/net/b.h", header(space("struct Verdict {\n  int a;\n};")), True),
            ("proxy/net/b.h", header(space("class Verdict final : public B<int> {\n};")), True),
            ("policy/b.cpp", space("template <class T>\nstruct Verdict {};"), True),
            ("tests/support/b.h", header(space("struct Verdict {};")), True),
            ("tests/base/b.cpp", space("struct Verdict {};"), False),
            ("policy/b.cpp", space(space("struct Verdict {};", "")), False),
            ("policy/b.h", header(space("struct Verdict {};", "recourse::bench ")), False),
            ("policy/b.h", header(space("struct Other {\n  struct Verdict {};\n};")), False),
            ("policy/b.h", header(space("class Verdict;\nstruct Told {};")), False),
            ("policy/b.h", header(space("template <>\nstruct Verdict<int> {};")), False),
        ):
            found = [text for text in violations_of({"filters/a.h": first, path: second})
                     if "another type" in text]
            self.assertEqual(len(found), int(is_bad), (path, second, found))
            if is_bad:
                self.assertIn("recourse::Verdict is another type in filters/a.h:3", found[0])

    def test_a_page_is_known_by_its_path_or_by_its_name_alone(self):
        for name, is_known in (("policy/README.md", True), ("README.md", True), ("b.md", True),
                               ("../policy/README.md#words", True), ("helm/b.md", False),
                               ("proxy/net/b.md", True), ("sub/b.md", False), ("c.md", False)):
            found = violations_of({"policy/README.md": "# Words\n", "proxy/net/b.md": "x\n",
                                   "helm/a.yaml": f"# see {name}.\n"})
            self.assertEqual(len(found), int(not is_known), (name, found))

    def test_a_path_of_the_admin_api_stands_in_its_list_alone(self):
        listed = {"proxy/admin/access/admin_paths.h": header(
            'constexpr char kAll[] = "/flows", kOne[] = "/flows/{id}", kUi[] = "/";'),
            "proxy/rooms.tsv": rooms({"proxy/admin/access": ""})}
        for text, is_bad in (
            ('Call("/flows");', True), ('Call("/flows?all=true");', True),
            ('Call("/flows/" + id);', True), ('Say("POST /flows/7/undo: " + why);', True),
            ('Call("/flowers");', False), ('At(json, "/");', False), ('Call("/live");', False),
            ('Say("ask GET /flows");', False),
        ):
            found = violations_of({**listed, "proxy/net/a.cpp": f"auto x = {text}\n"})
            self.assertEqual(len(found), int(is_bad), (text, found))
            self.assertIn("name the path of", found[0] if found else "name the path of")
        for text, is_bad in (
            ('get("/flows");', False), ("get(`/flows/${id}`);", False), ('get("/flow");', True),
            ("get(`/flows${query({ a })}`);", False), ("get(`/flows/${id}/redo`);", True),
            ('import { a } from "/ui/a.js";', False), ('x = "/"; y = "a/b";', False),
        ):
            found = violations_of({**listed, "proxy/admin/ui/a.js": f"{text}\n"})
            self.assertEqual(len(found), int(is_bad), (text, found))
            self.assertIn("is no path of", found[0] if found else "is no path of")

    def test_pages_have_so_many_words_together(self):
        for pages, message in (
                ({"README.md": 6_000, "proxy/docs/a.md": 6_001}, "users' pages have 12,001 words"),
                ({"README.md": 6_000, "helm/README.md": 6_000, "bench/a.md": 11_300}, None),
                ({"helm/README.md": 12_000, "bench/a.md": 11_301}, "all pages have 23,301 words")):
            found = violations_of({path: "word 7 | -\n" * words for path, words in pages.items()})
            found = [line for line in found if "words" in line]
            self.assertEqual(len(found), int(message is not None), found)
            self.assertIn(message or "", found[0] if found else "")

    def test_the_readme_of_the_top_is_short(self):
        found = violations_of({"README.md": "x\n" * 111, "helm/README.md": "x\n" * 111})
        self.assertEqual(len(found), 1, found)
        self.assertIn("README.md:1: 111 lines, at most 110", found[0])
        self.assertEqual(violations_of({"README.md": "x\n" * 110}), [])

    def test_rooms_stand_on_rooms_of_lower_levels(self):
        for more, message in (({"proxy/base": "policy"}, "proxy/base may not include policy"),
                              ({"policy": "policy"}, "policy may not include policy"),
                              ({"policy": "polcy"}, "policy may not include polcy"),
                              ({"policy/x": ""}, "policy/x is no folder")):
            found = violations_of({"proxy/rooms.tsv": rooms(more)})
            self.assertEqual(len(found), 1, found)
            self.assertIn(message, found[0])

    def test_other_rooms_include_public_headers_alone(self):
        listed = "# level\n1\tall\tproxy/base\terror\t\n2\tall\tpolicy\t-\tproxy/base\n"
        tree = {"proxy/rooms.tsv": listed, "proxy/base/error.cpp": '#include "proxy/base/own.h"\n'}
        for name, message in (("error", None), ("own", "proxy/base/own.h is proxy/base's own")):
            files = {**tree, "policy/a.cpp": f'#include "proxy/base/{name}.h"\n'}
            found = [line for line in violations_of(files) if "own" in line]
            self.assertEqual(len(found), int(message is not None), found)
            self.assertIn(message or "", found[0] if found else "")

    def test_a_list_of_rooms_allows_what_is_used(self):
        for public, uses, text, message in (
                ("error", "proxy/base", '#include "proxy/base/error.h"', None),
                ("error", "proxy/base", "", "policy includes nothing of proxy/base"),
                ("error", "", "", "no other room includes error.h of proxy/base"),
                ("-", "", "", None), ("*", "", "", None)):
            files = {"proxy/rooms.tsv": f"# level\n1\tall\tproxy/base\t{public}\t\n"
                     f"2\tall\tpolicy\t-\t{uses}\n", "policy/a.cpp": f"{text}\n"}
            found = violations_of(files, is_used_up=True)
            self.assertEqual(bool(found), message is not None, found)
            self.assertIn(message or "", "".join(found))

    def test_a_room_has_room_for_so_many_sources(self):
        files = {f"policy/a{number}.cpp": "int x;\n" for number in range(41)}
        found = violations_of(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn("policy has more than 40 sources", found[0])
        del files["policy/a0.cpp"]
        self.assertEqual(violations_of(files), [])

    def test_a_class_counts_over_all_its_files(self):
        def methods(count, lines=3):
            return "".join(f"int Big::F{i}() const {{\n" + "  G();\n" * (lines - 2) + "}\n"
                           for i in range(count))

        for bad, good, message in (
                ((15, 16, 3), (15, 15, 3), "93 lines of bodies in 31 methods"),
                ((6, 0, 67), (4, 0, 67), "402 lines of bodies in 6 methods")):
            with self.subTest(message):
                for (first, second, lines), is_bad in ((bad, True), (good, False)):
                    found = violations_of({"policy/a.cpp": methods(first, lines),
                                           "policy/b.cpp": methods(second, lines)})
                    self.assertEqual(len(found), is_bad, found)
                    self.assertIn(message, found[0] if is_bad else message)

    def test_bodies_in_a_class_count_and_those_of_a_test_do_not(self):
        inline = "class Big {\n" + "".join(f"  int a{i}() {{ return 1; }}\n" for i in range(31))
        found = violations_of({"policy/a.h": header(inline + "};\n")})
        self.assertEqual(len(found), 1, found)
        self.assertIn("class Big has 31 lines of bodies in 31 methods", found[0])
        self.assertEqual(violations_of({"tests/base/a.h": header(inline + "};\n")}), [])

    def test_equal_names_in_unnamed_namespaces_are_classes_of_their_own(self):
        inline = "class Big {\n" + "".join(f"  int a{i}() {{ return 1; }}\n" for i in range(20))
        hidden = "namespace {\n" + inline + "};\n}\n"
        self.assertEqual(violations_of({"policy/a.cpp": hidden, "policy/b.cpp": hidden}), [])

    def test_a_mutant_replaces_a_text_that_is_there_once(self):
        table = 'MUTANTS = (Mutant("a", "rule", "policy/a.cpp", "int x;\\n" "int", "y"),)\n'
        for source, times in (("int x;\nint y;\n", None), ("int x;\n", 0),
                              ("int x;\nint y;\nint x;\nint y;\n", 2)):
            with self.subTest(times):
                found = violations_of({"tests/mutant_table.py": table, "policy/a.cpp": source})
                self.assertEqual(len(found), times is not None, found)
                self.assertIn(f"replaces {times} times", found[0] if found else
                              "replaces None times")

    def test_symbolic_links_are_reported(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "build"))
            os.makedirs(os.path.join(root, "bench"))
            for path in ("build/inside", "bench/node_modules", "bench/run.sh"):
                os.symlink("/usr", os.path.join(root, path))
            found = Tidy(root).run()
        self.assertEqual([text.split(":")[0] for text in found],
                         ["bench/node_modules", "bench/run.sh"])

    def test_what_tools_write_is_not_read(self):
        self.assertEqual(violations_of({"build/x/a.cpp": "using namespace std;\n",
                                        "tests/e2e/clients/node_modules/a.js": "x" * 200}), [])


class FunctionsTest(unittest.TestCase):

    def lengths(self, text):
        return [length for _, length in cpp_text.functions(
            cpp_text.blank_comments_and_strings(text))]

    def test_finds_functions_in_every_dress(self):
        for text in (
                "void F() {\n}\n",
                "namespace a {\nvoid F() const noexcept {\n}\n}\n",
                "class A : public B {\n public:\n  A(int x) : a_{x}, b_(2) {\n}\n  int a_ = 3;\n"
                "};\n",
                "struct A {\n  A() : a_{1}, b_{2} {\n}\n};\n",
                "auto F() -> std::vector<int> {\n}\n",
                "Task<Result<X>> Foo::Handle(Context& ctx, Next next) const {\n}\n",
                'TEST(A, B) {\n}\n',
                "void F() {  // } }\n}\n",
                "auto x = [](int a) {\n};\n"):
            with self.subTest(text):
                self.assertEqual(self.lengths(text), [2])

    def test_blocks_and_lambdas_count_for_the_function_around_them(self):
        text = "void F() {\n  if (a) {\n  }\n  auto g = [] {\n  };\n}\n"
        self.assertEqual(self.lengths(text), [6])

    def test_data_and_types_are_no_functions(self):
        for text in ("int a[] = {\n1,\n2};\n", "enum class E {\nkA\n};\n",
                     "struct A {\nint x;\n};\n", "namespace a {\n}\n",
                     "const std::map<int, int> kMap = {\n{1, 2},\n};\n",
                     "constexpr Row kRows[] = {\n{f(1), 2},\n};\n"):
            with self.subTest(text):
                self.assertEqual(self.lengths(text), [])

    def test_a_body_belongs_to_the_class_that_it_names_or_stands_in(self):
        def classes(text):
            return [name for name, *_ in cpp_text.methods(
                cpp_text.blank_comments_and_strings(text))]

        for text, name in (
                ("Task<Result<X>> Foo::Handle(Y& y) const {\n}\n", "Foo"),
                ("A::B Foo::Bar::F() {\n}\n", "Foo::Bar"),
                ("Foo::Foo(int x) : a_{x}, b_(2) {\n}\n", "Foo"),
                ("bool Foo::operator==(const Foo& other) const {\n}\n", "Foo"),
                ("namespace n {\nclass Foo final : public B<int> {\n  int x() {}\n};\n}\n", "Foo"),
                ("struct Foo {\n struct Bar {\n  Bar() {}\n };\n};\n", "Foo::Bar")):
            with self.subTest(text):
                self.assertEqual(classes(text), [name])
        self.assertEqual(classes("namespace n {\nA::B F(int x) {\n}\n}\n"), [])

    def test_literals_do_not_unbalance_the_braces(self):
        text = "void F() {\n  G(\"}\\\"}\", '}', R\"x(}\n\")x\", 1'000);\n}\n"
        self.assertEqual(self.lengths(text), [4])


if __name__ == "__main__":
    unittest.main()
