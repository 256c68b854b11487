"""The command line itself: what a wrong use is told, completion, examples, exit codes."""

import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import textwrap
import time

import pytest

from support import rawhttp
from support.approvals import Staffed, Watch, token_of
from support.policies import standard
from support.recourse import BINARY, ROOT, WAIT_MAX, Recourse, run_cli
from support.waiting import wait_until

# What CLI11 says by itself.
RAW = re.compile(
    r"Could not convert|is required|were not expected|was not expected|not in range|not in \{"
    r"|required TEXT|required INT|Run with --help|TEXT|UINT"
)
# (arguments, what has to be said)
WRONG = {
    "a value that is missing": (["run"], ["--policy (Policy file or directory)", "--data ("]),
    "an argument that is missing": (["events", "show"], ["events show needs id (Event id)"]),
    "a word": (["events", "show", "abc"], ["id: 'abc' is not an id such as 17 or 42.17"]),
    "no count": (["events", "list", "--limit", "-1"], ["--limit: '-1'", "a whole number from 1"]),
    "a count of none": (
        ["flows", "list", "--limit", "0"], ["--limit: '0'", "a whole number from 1"]),
    "a flag's word": (["events", "list", "--limit", "x"], ["--limit: 'x'", "a whole number"]),
    "too few": (["run", "--policy", "p", "--data", "d", "--threads", "0"],
                ["--threads: '0' is no value for it; accepted: 1 to 64"]),
    "a size": (["run", "--policy", "p", "--data", "d", "--ledger-max", "x"],
               ["--ledger-max takes 1MiB to 16TiB", "8GiB"]),
    "a small size": (["run", "--policy", "p", "--data", "d", "--ledger-max", "1"],
                     ["--ledger-max: '1'", "1MiB to 16TiB"]),
    "a duration": (["drain", "--wait", "soon"], ["'soon' is not a duration such as"]),
    "one of a few": (["flows", "resolve", "1", "--step", "2", "--as", "x"],
                     ["--as: 'x'", "accepted: done, not-needed, happened, absent"]),
    "a level": (["log-level", "loud"], ["level: 'loud'", "debug, info, warn, error"]),
    "a value left out": (["events", "list", "--trace"], ["--trace needs a value: Only events"]),
    "a misspelled option": (["run", "--polcy", "x", "--data", "d"],
                            ["does not know '--polcy', did you mean '--policy'?"]),
    "an option with a misspelled name and a value": (
        ["events", "list", "--limt=3"], ["does not know '--limt', did you mean '--limit'?"]),
    "an unknown option with a value": (["run", "--policy", "p", "--data", "d", "--lisen", "x"],
                                       ["run does not know '--lisen', did you mean '--listen'?"]),
    "an unknown option": (["events", "list", "--colour"], ["does not know '--colour'", "--trace"]),
    "a directory to verify": (["ledger", "verify", "data-dir"],
                              ["'data-dir' is not taken: verify asks a running process"]),
    "one word too many": (["status", "now"], ["status does not take 'now'"]),
    "no such problem": (["help", "problems", "outcome-unknwon"],
                        ["problem: 'outcome-unknwon' is no problem, did you mean 'outcome-un",
                         "`recourse help problems` lists them"]),
    "no such command of help": (["help", "exits"], ["'exits'", "accepted: exit-codes, problems"]),
    "no command": ([], ["say what to do; accepted: run, steward, events,"]),
    "half a command": (["flows"], ["say what to do; accepted: list, show,"]),
    "no such command": (["flow"], ["no command 'flow', did you mean 'flows'?; accepted: run,"]),
    "no such command of its": (["policy", "chek"], ["did you mean 'check'?", "accepted: check,"]),
    "one without the other": (["run", "--policy", "p", "--data", "d", "--tls-cert", "c"],
                              ["--tls-cert needs --tls-key too"]),
    "no such shell": (["completion", "ksh"], ["shell: 'ksh'", "bash, fish, zsh"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_use_is_told_what_is_accepted_with_an_example(case):
    arguments, said = WRONG[case]
    ended = run_cli(*arguments)
    assert ended.returncode == 2 and ended.stdout == "", ended
    assert ended.stderr.startswith("recourse: ") and not RAW.search(ended.stderr), ended.stderr
    for text in said:
        assert text in ended.stderr, ended.stderr
    if not case.startswith("no such command"):
        assert "  more:    recourse " in ended.stderr
    if case not in ("no command", "half a command") and not case.startswith("no such command"):
        path = " ".join(arguments[: 2 if arguments[0] in ("events", "flows", "ledger") else 1])
        assert f"  example: recourse {path}" in ended.stderr


@pytest.mark.parametrize("path", [["run"], ["events", "list"], ["flows", "resolve"]])
@pytest.mark.parametrize("given", [[], ["--policy", "p", "--data", "d"]])
def test_options_are_listed_in_the_order_of_help_and_the_first_unknown_one_is_named(path, given):
    told = run_cli(*path, *given, "--no-such-word", "x", "--nor-that").stderr.splitlines()[0]
    first = "--policy" if given and path != ["run"] else "--no-such-word"
    assert f" does not know '{first}'" in told, told
    helped = re.findall(r"^  (?:-\w,)?(--[a-z-]+)", run_cli(*path, "--help").stdout, re.M)
    assert told.partition("accepted: ")[2].split(", ") == helped
    if path == ["run"]:
        missing = run_cli("run").stderr
        assert missing.index("--policy (") < missing.index("--data ("), missing


def test_whoever_misspelled_an_option_is_told_that_alone():
    assert "No policy yet?" not in run_cli("run", "--polcy", "p", "--data", "d").stderr


def test_whoever_has_no_policy_yet_gets_one_that_only_watches(double, token, tmp_path):
    ended = run_cli("run", "--data", tmp_path / "unused")
    assert ended.returncode == 2 and ended.stdout == ""
    lines = ended.stderr.splitlines()
    first = lines.index("  version: 1")
    policy = textwrap.dedent("\n".join(lines[first:lines.index("", first)]))
    assert "127.0.0.1:8080" in policy and "mode: observe" in policy
    start, report, suggest = re.findall(r"^  (recourse .*)$", ended.stderr, re.M)[:3]
    assert start == "recourse run --policy policy.yaml --data ./ledger --admin-token-file token"
    policy = policy.replace("127.0.0.1:8080", f"127.0.0.1:{double.port}")
    with Recourse(tmp_path / "r", policy) as running:
        answer = rawhttp.call(running.port, "POST", f"/{token}", "127.0.0.1:19080", body={"a": 1})
        assert answer.status == 201 and len(double.effects(f"/{token}")) == 1
        running.await_phase(f"/{token}", ["SUCCEEDED"])
        told = run_cli("report", "--since", "1h", "--admin-token-file", running.token_path,
                       "--admin", f"127.0.0.1:{running.ports['admin']}")  # fmt: skip
        assert report == "recourse report --since 1h --admin-token-file token"
        assert told.returncode == 0 and "1 write was sent" in told.stdout, told
        ends = "policy suggest --data ./ledger --policy policy.yaml --out tools.yaml"
        assert suggest == f"recourse {ends}"
        kept = running.data / "traffic"  # written behind the answer
        wait_until(lambda: kept.exists() and kept.stat().st_size > 0)
        made = run_cli("policy", "suggest", "--data", running.data, "--policy", running.policy_path,
                       "--out", tmp_path / "tools.yaml", "--no-drill")  # fmt: skip
        assert made.returncode == 0 and made.stderr.startswith("verdict: it holds"), made


# --- completion ----------------------------------------------------------------------------------

ASK = """\
source /dev/stdin <<'END'
{script}
END
COMP_WORDS=({words}) COMP_CWORD={last} COMPREPLY=()
_recourse
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p recourse
"""


@pytest.fixture(scope="module")
def script():
    ended = run_cli("completion", "bash")
    assert ended.returncode == 0 and ended.stderr == "", ended
    return ended.stdout


def candidates(script, *words):
    """What bash offers for the last of `words`."""
    quoted = " ".join(f"'{word}'" for word in ("recourse", *words))
    text = ASK.format(script=script, words=quoted, last=len(words))
    ended = subprocess.run(["bash", "--norc", "-u", "-c", text], capture_output=True, text=True,
                           timeout=WAIT_MAX, check=False)  # fmt: skip
    assert ended.returncode == 0, ended
    *offered, complete = ended.stdout.splitlines()
    assert complete == "complete -o default -F _recourse recourse"
    return [word for word in offered if word]


def commands_below(script, *path):
    """Every command that has none below it, as completion knows them."""
    found = [word for word in candidates(script, *path, "") if not word.startswith("-")]
    values = {("log-level",), ("completion",)}
    if not found or path in values:
        return [path]
    return [leaf for word in found for leaf in commands_below(script, *path, word)]


def test_bash_completes_commands_options_and_fixed_values(script):
    assert candidates(script, "ev") == ["events"]
    assert candidates(script, "flows", "re") == ["retry", "resolve"]
    assert candidates(script, "events", "list", "--st") == ["--status"]
    assert candidates(script, "run", "--log-level", "") == ["debug", "info", "warn", "error"]
    assert candidates(script, "run", "--policy", "x.yaml", "--thr") == ["--threads"]
    assert candidates(script, "log-level", "d") == ["debug"]
    assert candidates(script, "policy", "import", "o") == ["openapi"]
    assert candidates(script, "flows", "resolve", "7", "--as", "n") == ["not-needed"]
    # Where a file is named bash goes on by itself.
    assert candidates(script, "run", "--policy", "") == []


def test_zsh_gets_the_same_through_its_own_compatibility(script):
    ended = run_cli("completion", "zsh")
    head, _, rest = ended.stdout.partition("bashcompinit\n")
    assert head.startswith("#compdef recourse\n") and rest.startswith(script)


class Zsh:
    """A shell at a terminal, with nothing but what `setup` says; `tab` completes a line in it."""

    def __init__(self, home, setup):
        show = r"""show() { print -r -- "<$BUFFER>"; BUFFER= }; zle -N show; bindkey '^X' show"""
        (home / ".zshrc").write_text(f"{setup}\nPS1='ready '\n{show}\n")
        variables = {"ZDOTDIR": str(home), "HOME": str(home), "TERM": "dumb",
                     "PATH": os.environ["PATH"]}  # fmt: skip
        self.seen = b""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execvpe("zsh", ["zsh", "-d", "-i"], variables)
        self.until(b"ready ")

    def until(self, text):
        deadline = time.monotonic() + WAIT_MAX
        while text not in self.seen:
            left = max(0.0, deadline - time.monotonic())
            assert select.select([self.terminal], [], [], left)[0], self.seen
            self.seen += os.read(self.terminal, 4096)
        before, _, self.seen = self.seen.partition(text)
        return before

    def tab(self, line):
        """What becomes of the line that was typed."""
        os.write(self.terminal, line.encode() + b"\t\x18")
        self.until(b"<")
        return self.until(b">\r\n").decode()

    def end(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.terminal)


@pytest.fixture(params=["in the function path", "sourced"])
def zsh(request, tmp_path):
    assert shutil.which("zsh"), "zsh is missing: ./dev test installs it"
    file = tmp_path / "_recourse"
    file.write_text(run_cli("completion", "zsh").stdout)
    init = "autoload -Uz compinit; compinit -u -D"
    found = f"fpath=({tmp_path} $fpath); {init}"
    shell = Zsh(tmp_path, found if request.param != "sourced" else f"{init}; source {file}")
    yield shell
    shell.end()


def test_a_tab_in_zsh_completes_from_the_first_one_on(zsh):
    assert zsh.tab("recourse flows resol") == "recourse flows resolve "
    assert zsh.tab("recourse ev") == "recourse events "
    assert zsh.tab("recourse run --log-level wa") == "recourse run --log-level warn "
    assert zsh.tab("recourse approvals list --ca") == "recourse approvals list --caller "


FISH = {
    "recourse ev": ["events"],
    "recourse flows re": ["resolve", "retry"],
    "recourse run --log-level ": ["debug", "error", "info", "warn"],
    "recourse events list --fol": ["--follow"],
    "recourse policy import o": ["openapi"],
    "recourse policy --chec": [],
    "recourse flows resolve 7 --as n": ["not-needed"],
}


@pytest.mark.parametrize("line", FISH)
def test_a_tab_in_fish_completes_the_same_with_words_on_each(line, tmp_path):
    assert shutil.which("fish"), "fish is missing: ./dev test installs it"
    file = tmp_path / "recourse.fish"
    file.write_text(run_cli("completion", "fish").stdout)
    # Nothing but what Recourse told completes its name.
    asked = f"complete -e recourse; source {file}; complete -C '{line}'"
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    ended = subprocess.run(["fish", "--no-config", "-c", asked], cwd=tmp_path, env=env, text=True,
                           capture_output=True, timeout=WAIT_MAX, check=False)  # fmt: skip
    assert ended.returncode == 0 and ended.stderr == "", ended
    offered = dict(one.partition("\t")[::2] for one in ended.stdout.splitlines())
    assert sorted(offered) == FISH[line]
    assert all(offered.values()) or "--log-level" in line or "--as" in line, offered


def test_each_command_has_an_example_that_names_its_own_options(script):
    leaves = commands_below(script)
    assert len(leaves) > 35
    for path in leaves:
        shown = run_cli(*path, "--help").stdout
        found = re.search(r"Example:\n  recourse " + " ".join(path) + r"(?: (.*))?\n", shown)
        assert found, (path, shown)
        assert "[]" not in shown and f"\nUsage: recourse {' '.join(path)}" in shown, shown
        for option in re.findall(r"--[a-z-]+", found[1] or ""):
            assert option in candidates(script, *path, option), (path, option)


# Whatever shows rows or facts to people shows them to programs too.
NOT_TABLES = {
    "run", "steward", "console", "inject", "operators token", "operators check", "ledger new-key",
    "ledger export",
    "ledger migrate", "ledger grant", "ledger import",
    "policy suggest", "policy test", "policy schema", "policy import mcp", "policy import openapi",
    "policy replay", "pack add", "pack export",
    "redirect show", "redirect install", "redirect remove", "redirect await", "redirect node",
    "version", "completion", "help exit-codes", "help problems", "ca init", "ca bundle", "env",
}  # fmt: skip


def test_each_command_that_asks_a_process_can_print_json(script):
    leaves = {" ".join(path) for path in commands_below(script)}
    silent = {path for path in leaves if "--json" not in candidates(script, *path.split(), "--j")}
    assert silent == NOT_TABLES - {"ledger export"}


def test_policy_explain_says_as_json_what_a_running_process_says(double, tmp_path):
    call = "POST shop /orders/1"
    with Staffed(tmp_path, standard(double)) as running:
        said = run_cli("policy", "explain", running.policy_path, call, "--json")
        assert said.returncode == 0, said
        asked = running.admin("GET", "/policy/explain?call=POST+shop+/orders/1")
        assert json.loads(said.stdout) == asked and asked["lines"]


# --- variables of the environment ----------------------------------------------------------------


def variables_of(*path):
    """The variables of one command, and the options that they stand for, as its help has them."""
    shown = run_cli(*path, "--help").stdout
    found = re.findall(r"^ +(?:-\w,)?(--[a-z-]+)(?:(?!^ +-).)*?\(Env:(\w+)\)", shown, re.M | re.S)
    return {variable: option for option, variable in found}


@pytest.fixture(scope="module")
def shared_variables(script):
    """{variable: [(command, option), ...]} of all that more than one command has."""
    users = {}
    for path in commands_below(script):
        for variable, option in variables_of(*path).items():
            users.setdefault(variable, []).append((path, option))
    return {variable: of for variable, of in users.items() if len(of) > 1}


# No value of any of them, whatever it takes; as a path it is nowhere.
NO_VALUE = "/nowhere/variable"


def example_of(path):
    """The arguments of the example that the command's help ends with."""
    found = re.search(r"Example:\n  recourse (.*)\n", run_cli(*path, "--help").stdout)
    words = re.sub(r" --admin(-token-file)? \S+", "", found[1].partition(">")[0])
    return shlex.split(words.replace("DIGEST", "0" * 12))


def test_no_command_reads_the_variables_of_others(shared_variables):
    assert {"RECOURSE_DATA", "RECOURSE_POLICY", "RECOURSE_ADMIN", "RECOURSE_ADMIN_TOKEN_FILE",
            "RECOURSE_LEDGER", "RECOURSE_THREADS", "RECOURSE_OPERATORS"} <= set(shared_variables)
    everything = dict.fromkeys(shared_variables, NO_VALUE)
    ended = run_cli("version", env=everything)
    assert ended.returncode == 0, ended
    own = variables_of("status")
    others = {name: value for name, value in everything.items() if name not in own}
    ended = run_cli("status", "--admin", "127.0.0.1:1", env=others)
    assert ended.returncode == 1 and "127.0.0.1:1" in ended.stderr, ended


def test_a_flag_wins_over_its_variable_in_every_command_that_asks_a_process(shared_variables):
    asking = [path for path, _ in shared_variables["RECOURSE_ADMIN"]
              if path[0] not in ("run", "steward", "doctor")]  # fmt: skip
    assert len(asking) > 20
    for path in asking:
        with_flag = run_cli(*example_of(path), "--admin-token-file", "/nowhere/flag",
                            env={"RECOURSE_ADMIN_TOKEN_FILE": NO_VALUE})  # fmt: skip
        assert "/nowhere/flag" in with_flag.stderr, (path, with_flag)
        without = run_cli(*example_of(path), env={"RECOURSE_ADMIN_TOKEN_FILE": NO_VALUE})
        assert NO_VALUE in without.stderr, (path, without)


@pytest.mark.parametrize("command", ["run", "steward"])
def test_a_flag_wins_over_the_variable_of_a_process(command, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("version: 1\nnonsense: 1\n")
    ended = run_cli(command, "--policy", bad, "--data", tmp_path / "flag",
                    env={"RECOURSE_POLICY": NO_VALUE, "RECOURSE_DATA": NO_VALUE})  # fmt: skip
    assert ended.returncode == 3 and str(bad) in ended.stderr and NO_VALUE not in ended.stderr


def test_the_ledger_of_the_flag_is_used(double, tmp_path):
    other = tmp_path / "variable"
    with Staffed(tmp_path, standard(double), env={"RECOURSE_DATA": str(other)}) as running:
        assert (running.data / "data.mdb").exists() and not other.exists()


# --- exit codes ----------------------------------------------------------------------------------


def test_the_binary_tells_what_each_exit_code_means():
    ended = run_cli("help", "exit-codes")
    assert ended.returncode == 0
    told = dict(re.findall(r"^ *(\d+)  (.+)$", ended.stdout, re.MULTILINE))
    assert "recourse help exit-codes" in run_cli("--help").stdout
    config = (ROOT / "proxy/config/config.h").read_text()
    assert set(re.findall(r"constexpr int kExit\w+ = (\d+);", config)) == set(told)


def test_help_tells_of_every_problem_what_the_page_of_answers_says():
    ended = run_cli("help", "problems")
    assert ended.returncode == 0
    row = r"^([a-z-]+) \((\d+), .*\)\n  means: +(.+)\n  agent: +(.+)\n  operator: +(.+)$"
    told = re.findall(row, ended.stdout, re.MULTILINE)
    page = " ".join((ROOT / "proxy/docs/answers.md").read_text().split())
    items = page.split('* <a id="')[1:]
    assert [slug for slug, *_ in told] == [item.partition('"')[0] for item in items]
    for (_, status, means, _, step), item in zip(told, items, strict=True):
        assert status in item and means in item and (step in item or step.startswith("Nothing"))
    name = told[-1][0]
    for asked in (name, f"https://recourse.dev/problems/{name}"):
        one = run_cli("help", "problems", asked)
        assert one.returncode == 0 and one.stdout.startswith(f"{name} (")
        assert one.stdout.splitlines()[:-1] == ended.stdout.rstrip().splitlines()[-4:]
        assert f'<a id="{one.stdout.rpartition("#")[2].strip()}"></a>' in page


def test_commands_end_with_the_codes_that_are_documented(double, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("version: 1\nnonsense: 1\n")
    asked = run_cli("help")
    assert asked.returncode == 0 and asked.stdout == run_cli("--help").stdout
    assert run_cli("status", "--admin", "127.0.0.1:1").returncode == 1
    assert run_cli("policy", "check").returncode == 2
    assert run_cli("policy", "check", bad).returncode == 3
    assert run_cli("operators", "check", bad).returncode == 3
    with Staffed(tmp_path / "one", standard(double)) as running:
        second = run_cli("run", "--policy", running.policy_path, "--data", running.data,
                         "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                         "--probes", "127.0.0.1:0",
                         "--drain-timeout", "0s")  # fmt: skip
        assert second.returncode == 78, second
        assert running.cli("ledger", "verify").returncode == 0
        assert running.cli("events", "show", "999999").returncode == 1


# --- approvals watch -----------------------------------------------------------------------------

MAIL = """\
  mail.send:
    match: POST shop /mail/{token}
    effect: write
    undo: none
    approval: { by: [ finance ], expires: 10m, hold: 0s }
"""


def test_approvals_watch_tells_what_begins_to_wait_and_what_becomes_of_it(double, token, tmp_path):
    with Staffed(tmp_path, standard(double, extra_tools=MAIL)) as running:
        with Watch(running) as people, Watch(running, "--json") as programs:
            people.await_line("OPERATION", "STATUS")
            asked = rawhttp.call(running.port, "POST", f"/mail/{token}", body={"to": "ada"})
            operation = asked.json()["operation"]
            assert "waiting" in people.await_line(str(operation), f"/mail/{token}")
            told = json.loads(programs.await_line(f"/mail/{token}"))
            assert (told["operation"], told["status"]) == (operation, "waiting")
            assert isinstance(told["operation"], int)
            assert running.reject(operation, reason="not without a ticket")[0] == 200
            people.await_line(str(operation), "is rejected", "not without a ticket")
            assert json.loads(programs.await_line('"rejected"'))["operation"] == operation
        running.kill()
        ended = run_cli("approvals", "watch", "--admin", f"127.0.0.1:{running.ports['admin']}")
        assert ended.returncode == 1 and "is recourse running there?" in ended.stderr
