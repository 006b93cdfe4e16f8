"""What the command line and Python both ask: definitions, selections, and each verb's answer as a value.

The verbs in mburst/cli parse and print, and ask here. `mburst.open` and its neighbours (docs/python.md) are store.py
and recording.py. Nothing that they do prints, handles signals, ends the process or changes its rights.
"""
