"""Parts of a request in the process: Google Benchmark does the measuring and the printing."""

import json
import os
import subprocess


def run(options, report):
    program = os.path.join(options.build, "bench", "micro_bench")
    result = os.path.join(options.work, "micro.json")
    seconds = 0.05 if options.quick else 0.2
    subprocess.run([program, "--benchmark_color=false", f"--benchmark_min_time={seconds}",
                    f"--benchmark_out={result}"],
                   timeout=600, check=True, stderr=subprocess.DEVNULL)
    with open(result, encoding="utf-8") as file:
        report.data["micro"] = json.load(file)["benchmarks"]
