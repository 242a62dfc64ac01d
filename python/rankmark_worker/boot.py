"""What `python -c` runs: takes the package out of inherited memory, and becomes the rank.

Nothing is written anywhere. This file is read by any Python, also by one that is too old, which says so.
"""

import sys

# `python -c` looks for modules in the working folder first: a file there must not stand in for torch or json. The
# module above is built in; nothing else is imported before this. From 3.11 on PYTHONSAFEPATH has seen to it already.
sys.path[:] = [folder for folder in sys.path if folder]

if sys.version_info < (3, 9):
    sys.exit("Python %d.%d at %s is too old: 3.9 or later is needed" % (sys.version_info[:2] + (sys.executable,)))

import importlib.abc
import importlib.util
import json
import os


class Package(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The modules of the package, from a dictionary of their texts."""

    def __init__(self, sources):
        self.sources = sources

    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        origin = "<" + name + ">"
        return importlib.util.spec_from_loader(name, self, origin=origin, is_package="." not in name)

    def get_source(self, name):
        return self.sources[name]

    def exec_module(self, module):
        name = module.__name__
        exec(compile(self.sources[name], "<" + name + ">", "exec"), module.__dict__)


_descriptor = int(sys.argv[2])
# All ranks share one position in the memory, so it is not used.
_bytes = os.pread(_descriptor, os.fstat(_descriptor).st_size, 0)
os.close(_descriptor)
sys.meta_path.insert(0, Package(json.loads(_bytes)))

from rankmark_worker.main import main  # noqa: E402

main(sys.argv[1])
