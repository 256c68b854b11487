"""The rules of the tree as data: who may include whom, what has one home, how big things get.

Each rule says what to do instead, because a rule without a way out is only an obstacle.
"""

import re

LINE_COLUMNS_MAX = 100
PAGE_COLUMNS_MAX = 120  # of a page's prose; tables and outputs are as wide as they are
README_LINES_MAX = 110  # of the top's: what somebody reads before trying it
# (whose, which pages, how many words they may have together; a word has a letter)
PAGE_WORDS = [
    # But the table of the packs' writes, which is made, not written, and grows with them.
    ("all pages", r"(?!policy/packs/writes\.md$).*", 23_300),
    ("users' pages", r"(README|CHANGELOG|SECURITY)\.md|policy/(packs/)?README\.md|"
     r"proxy/RUNNING\.md|proxy/docs/.*|helm/(recourse/)?README\.md", 12_000),
]
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
# Of a class, over all its files: lines of bodies, and how many bodies.
CLASS_LINES_MAX = 400
CLASS_METHODS_MAX = 30

MUTANTS = "tests/mutant_table.py"  # name, rule, file, text, text in its place

TOP_LEVEL_FOLDERS = {"proxy", "filters", "policy", "bench", "tests", "helm"}
TOP_LEVEL_FILES = {"CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md",
                   "SECURITY.md", "dev"}
# Never looked into: what tools write.
SKIPPED_FOLDERS = {"build", "node_modules", "__pycache__", ".git", ".cache"}

PRODUCT = ("proxy/", "filters/", "policy/")

# Every folder with product code is a room: a line of this list says its level, its library and
# which rooms of lower levels it may include.
ROOMS = "proxy/rooms.tsv"
ROOM_FILES_MAX = 40

# (pattern of an included header, where it may stand, what to do instead)
HEADER_HOMES = [
    (r"lmdb\.h$", r"filters/ledger/lmdb/|tests/|bench/", "speak to the Ledger interface"),
    (r"libpq-fe\.h$", r"filters/ledger/postgres/|tests/|bench/", "speak to the Ledger interface"),
    (r"boost/(asio|beast)", r"proxy/net/|tests/",
     "use Task, Executor and Timer of proxy/base, or put the I/O into proxy/net"),
    (r"yaml-cpp/", r"policy/|tests/", "take a Policy"),
    (r"CLI/", r"proxy/main\.cpp|proxy/(cli|console|doctor|telemetry|drill|inject|suggest)/",
     "take a parsed value"),
    (r"prometheus/", r"proxy/(telemetry|inject)/|tests/",
     "count through the interface of proxy/base"),
    (r"openssl/ssl\.h$", r"proxy/net/|tests/", "put TLS into proxy/net"),
    (r"(sys/socket|sys/epoll|sys/un|netinet/tcp|netdb)\.h$",
     r"proxy/(net|admin/api|lanes|startup)/|tests/|bench/", "put sockets into proxy/net"),
    (r"(cassert|assert\.h)$", r"tests/|bench/", "use RC_CHECK, which stays on in release builds"),
    (r"regex$", r"tests/", "compare by hand; routes and keys never need a regular expression"),
    (r"gtest/|gmock/", r"tests/", "keep tests under tests/"),
    (r"tests/", r"tests/", "production code and benchmarks know no test"),
    (r"bench/", r"bench/", "keep benchmarks on top"),
    (r"(\.\./|\./)", r"$^", "write the path from the top of the tree"),
]

# Where an id stands, which is a stream and a number packed into one.
ROW_ID = (r"(?:[\w*:]+(?:\.|->))*(?:operation|about_operation|undoes|undo_operation|related|"
          r"event_id|flow_number|first_id|last_id|bad_row|asked_row|seq|"
          r"(?:event|claim|unknown|moved|last|found)(?:\.|->)id|"
          r"(?:state|flow|moved|action|news)(?:\.|->)number)\s*")
# (pattern in code without comments and strings, where it may stand, what to do instead)
BANNED_CODE = [
    (r"\bto_string\(\s*" + ROW_ID + r"\)|\.Number\([^,;]*,\s*" + ROW_ID + r"\)|"
     r"\bfmt::format\([^;]*?,\s*" + ROW_ID + r"[,)]",
     r"filters/ledger/lmdb/|proxy/drill/|tests/|bench/",
     "an id is told by PrintRowId, in JSON by RowIdJson: packed it is another one"),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b|(?<![\w.>])sleep\s*\(", r"bench/",
     "await Timer::SleepUntil"),
    (r"\b(secure_)?getenv\b",
     r"proxy/main\.cpp|proxy/base/crash_point\.cpp|proxy/config/|"
     r"tests/(power_loss|sim|differential)/|tests/ledger/postgres_server\.cpp",
     "take the value from the configuration"),
    (r"\b(system_clock::now|gettimeofday|clock_gettime|time\s*\(\s*(nullptr|NULL|0)\s*\))",
     r"proxy/base/clock\.|proxy/base/log/log\.cpp|filters/ledger/lease/boot_time\.cpp|bench/",
     "take a Clock and call WallNow()"),
    # A test may measure that hostile input ends soon; everything else lives in virtual time.
    (r"\b(steady_clock|high_resolution_clock)::now\b", r"proxy/base/clock\.|tests/|bench/",
     "take a Clock and call Now()"),
    (r"\brandom_device\b|(?<![\w.>:])(s?rand|drand48)\s*\(|\bgetrandom\b",
     r"proxy/base/random\.", "take a Random"),
    (r"\bstd::(jthread|async|thread\b(?!::))",
      r"filters/ledger/|proxy/(net|admin|console|telemetry|traffic)/|proxy/base/thread_pool\.|"
      r"tests/|bench/",
     "post to an Executor"),
    # Scratch memory of pure functions, and memory that frames left: no result shows it. Asio hands
    # nothing in when it waits.
    (r"\bthread_local\b",
     r"proxy/base/json/json_parse\.cpp|proxy/base/(frame_arena|latest_texts)\.h|"
     r"proxy/net/loop/kernel_wait\.cpp",
     "hand the object in through the constructor"),
    (r"\bSetLogLevel\b", r"proxy/|bench/|tests/support/quiet_log\.h",
     "a QuietLog, which puts it back: the next test of the process may read the log"),
    (r"\busing\s+namespace\b(?!\s+(std::)?[\w:]*literals\s*;)", r"$^",
     "name what you use, or write `using a::b;`"),
    (r"\b(sprintf|vsprintf|strcpy|strcat|strtok|gets)\s*\(", r"$^", "use fmt and std::string"),
    (r"\b(atoi|atol|atoll|atof|strto[a-z]+|sto(i|l|ll|ul|ull|f|d|ld))\s*\(",
     r"proxy/base/crash_point\.cpp|tests/|bench/", "use std::from_chars, which tells the error"),
    (r"\bstd::regex\b", r"tests/", "compare by hand"),
    (r"\bassert\s*\(", r"tests/|bench/", "use RC_CHECK, which stays on in release builds"),
    (r"\b(asio|net)::detached\b", r"$^", "give every task an owner that waits for it"),
    (r"\bMDB_(NOSYNC|NOMETASYNC|WRITEMAP|MAPASYNC)\b", r"bench/",
     "keep LMDB's default sync mode: nothing weaker is durable"),
    (r"(?<!#if defined\(__SSE2__\)\n)(?<!#ifdef __x86_64__\n)#include <\w*intrin\.h>", r"$^",
     "ask for it behind #if defined(__SSE2__): arm64 is built too, and goes without"),
    (r"#\s*pragma\s+(GCC|clang)\b", r"$^", "solve it, or say so in CMakeLists.txt"),
    (r"\bMDB_\w+", r"filters/ledger/lmdb/|tests/|bench/", "speak to the Ledger interface"),
]

# A literal that is a piece of JSON: a member's name in quotes and its colon, in a text whose braces
# are no pairs, or doubled for fmt.
JSON_HOME = r"proxy/base/json/|policy/language/schema"
JSON_NAME = re.compile(r'"[\w./-]*":|^":')

# The admin API's paths, each there alone; and where the same text is none of them.
ADMIN_PATHS = "proxy/admin/access/admin_paths.h"
NO_ADMIN_PATHS = r"proxy/cli/policy/mcp_tool_listing\.cpp$"  # a place in JSON
# The pages are served as they are, so that they spell paths out: each has to be one of the list.
ADMIN_PAGES = "proxy/admin/ui/"

# (pattern of a dotted name in Python code, where it may stand, what to do instead)
BANNED_PYTHON = [
    # Clients do as real agents do; a benchmark measures in time.
    (r"time\.sleep", r"tests/e2e/(support/waiting\.py$|clients/)|bench/",
     "wait for what can be seen, by wait_until() of tests/e2e/support/waiting.py"),
]

# All but the code of exchanges, lanes, connections, network and filters; a protocol's own rooms,
# and the one place that asks.
PROTOCOL_HOMES = (
    r"(?!(filters/|proxy/(downstream|exchange|lanes|net)/).*\.(cpp|h)$)|"
    r"filters/(mcp|graphql)/|filters/call/codecs\.cpp$")

# (pattern in any text file, where it may stand, what to do instead). The class [/] keeps this file
# from finding itself.
BANNED_TEXT = [
    (r"\bTODO\b(?!\(#\d+\))|\b(FIXME|XXX|HACK)\b", r"tests/tidy/",
     "write TODO(#123) with the number of an issue, or do it"),
    (r"[/]work/", r"$^", "no path of one machine belongs into the tree"),
    (r"[/]home/\w+/", r"$^", "no path of one machine belongs into the tree"),
    (r"^(<{7}|>{7}) ", r"$^", "resolve the merge conflict"),
    # What sends, keeps, settles and undoes calls goes through the codec.
    (r"(?i)mcp(?!y)|graphql(?!/decision/document_key\.h)", PROTOCOL_HOMES,
     "put what differs between protocols into a Codec (filters/codec.h)"),
    (r"\b([Dd]esign|[Ss]emantics|[Aa]rchitecture) (section )?\d", r"tests/tidy/",
     "the tree has no such page: state the rule itself"),
]

# Where names of pages that do not exist may stand: texts of trees that the tests of tidy make up.
UNKNOWN_PAGES = r"tests/tidy/tidy_test\.py$"

