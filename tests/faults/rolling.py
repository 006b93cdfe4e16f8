"""Runs mburst with writers that begin a new segment at this interval: rolling.py SECONDS WORD…"""

import sys

from mburst.__main__ import main
from mburst.sql.writer import TableWriter

*defaults, _ = TableWriter.__init__.__defaults__ or ()
TableWriter.__init__.__defaults__ = (*defaults, float(sys.argv[1]))  # roll_s
sys.exit(main(sys.argv[2:]))
