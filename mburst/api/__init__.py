"""What the command line and Python share: burst definitions, selections, and the answer of each verb as a value.

The verbs in mburst/cli parse and print; they get their answers here. `mburst.open` and the other public functions
(docs/python.md) are in store.py and recording.py. Nothing here prints, handles signals, ends the process or changes its
rights.
"""
