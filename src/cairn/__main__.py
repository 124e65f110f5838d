"""`python -m cairn` is `cairn`. The current folder is not searched for modules."""

import os
import sys

if sys.path and sys.path[0] in ("", os.getcwd()) and not os.path.isdir(os.path.join(os.getcwd(), "cairn")):
    del sys.path[0]  # `python -m` puts the current folder first, where any file could replace a module of its name

from cairn.cli.main import main

main()
