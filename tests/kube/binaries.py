"""The programs of Kubernetes, of its source: `binaries.py FOLDER` makes them there. They are one
program, which is whichever of them it is called by.

RECOURSE_KUBE_SOURCE is a tree of Kubernetes, or of somebody who has it in vendor/, with all that it
needs; RECOURSE_KUBE_GO a Go as new as its go.mod asks (`go`).
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PARTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
MAIN = """\
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func command() *cobra.Command {
	switch filepath.Base(os.Args[0]) {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return manager.NewControllerManagerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	}
	return kubelet.NewKubeletCommand(context.Background())
}

func main() { os.Exit(cli.Run(command())) }
"""
PACKAGE = "cmd/recourse-kube"  # nothing is written into the source


def version_in(pattern, text):
    """(the text, its numbers)."""
    found = re.search(pattern, text, re.MULTILINE)
    return (found[1], tuple(map(int, found[1].split(".")))) if found else ("none", ())


def why_not(source, go):
    """Empty: it can be built."""
    if not (source / "go.mod").is_file() or not (source / "vendor/modules.txt").is_file():
        return f"RECOURSE_KUBE_SOURCE={source} is no tree of Go with go.mod and vendor/"
    wanted, least = version_in(r"^go ([\d.]+)$", (source / "go.mod").read_text())
    try:
        told = subprocess.run([go, "version"], capture_output=True, text=True, check=False,
                              env={**os.environ, "GOTOOLCHAIN": "local"}).stdout  # fmt: skip
    except OSError as error:
        told = str(error)
    has, number = version_in(r"go([\d.]+\d)", told)
    return "" if number >= least else (
        f"{source} needs Go {wanted}, and {go} is {has}: name a newer one in RECOURSE_KUBE_GO"
    )  # fmt: skip


def kubernetes_version(source):
    """As the source's own builds write it into their programs."""
    kept = source / "Makefile.kube_git.var"
    if kept.exists():
        return re.search(r"^KUBE_GIT_VERSION=(\S+)", kept.read_text(), re.MULTILINE)[1]
    told = subprocess.run(["git", "-C", source, "describe", "--tags", "--match=v*", "--abbrev=0"],
                          capture_output=True, text=True, check=False).stdout.strip()  # fmt: skip
    if not told:
        raise SystemExit(f"{source} is no clone with the tag of a version: which one is it?")
    return told


def build(source, go, folder):
    folder.mkdir(parents=True, exist_ok=True)
    version = kubernetes_version(source)
    with tempfile.TemporaryDirectory() as temporary:
        main, overlay = pathlib.Path(temporary, "main.go"), pathlib.Path(temporary, "overlay.json")
        main.write_text(MAIN)
        overlay.write_text(json.dumps({"Replace": {f"{source}/{PACKAGE}/main.go": str(main)}}))
        subprocess.run(
            [go, "build", "-mod=vendor", f"-overlay={overlay}", "-o", folder / PARTS[0],
             # It need not be fast: half of the compiler's work is left out.
             "-gcflags=all=-N -l",
             f"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={version}",
             f"-p={os.environ.get('JOBS', os.cpu_count())}", f"./{PACKAGE}"],
            cwd=source, check=True,
            env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOPROXY": "off",
                 "GOFLAGS": "", "GOCACHE": os.environ.get("GOCACHE", str(folder / "cache"))},
        )  # fmt: skip
    for name in PARTS[1:]:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(PARTS[0])


def main(folder):
    source = pathlib.Path(os.environ["RECOURSE_KUBE_SOURCE"]).resolve()
    go = os.environ.get("RECOURSE_KUBE_GO") or "go"
    if why := why_not(source, go):
        raise SystemExit(why)
    print(f"Kubernetes {kubernetes_version(source)} of {source}: half an hour, once", flush=True)
    build(source, go, pathlib.Path(folder).resolve())


if __name__ == "__main__":
    main(*sys.argv[1:])
