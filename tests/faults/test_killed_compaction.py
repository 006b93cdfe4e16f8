"""A compaction that is killed at any step leaves every answer unchanged, and the next one completes it."""

from __future__ import annotations

import shutil
from pathlib import Path

from compactionlib import NOW, answers, compacted, days_of_bursts
from killing import memory_folder, serving
from places import ROOT

from mburst.sql import StoreFolder
from mburst.sql.repair.checking import check

EVERY = 13  # steps come in similar sequences; every 13th is at another place of its sequence


def test_a_compaction_is_killed_at_any_step() -> None:
    with memory_folder() as folder, serving(ROOT / "tests" / "lib" / "killed_compaction.py") as killer:
        original = StoreFolder.create(folder / "original")
        days_of_bursts(original, hosts=1)
        before = answers(original)
        kills, step = 0, 1
        while True:
            store = StoreFolder(Path(shutil.copytree(original.path, folder / "copy")))
            answer = killer.order(store=str(store.path), now_ns=NOW, step=step)
            assert answers(store) == before, step
            if not answer["killed"]:
                break
            kills += 1
            compacted(store)
            assert answers(store) == before, step
            shutil.rmtree(store.path)
            step += EVERY
        assert answer["code"] == 0 and kills > 10
        found = check(store.path)
        assert found.is_sound and not found.remarks
