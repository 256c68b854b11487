"""Makes chart.py importable, whatever directory pytest was started in."""

import pathlib
import sys

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
# libyaml's loader, of which the one that is written in Python takes seven times as long.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
