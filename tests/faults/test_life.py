"""Random sequences of what happens to a store in its life: after each step it must hold what was recorded into it, as a
store into which the same was recorded, and nothing else was done, shows."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from compactionlib import DAY, MS, S, answers, bursts, incast, quiet, recorded, same, together
from fleetlib import detected, plain, without_names
from fleetlib import rows as results_of

from mburst.analysis.bursts.find import BurstDefinition
from mburst.fleet.ship import ShipSettings, ship
from mburst.fleet.target import open_target
from mburst.sql import StoreFolder
from mburst.sql.compaction.compact import compact
from mburst.sql.compaction.rules import SETTLED_NS, KeepRules
from mburst.sql.repair.checking import check
from mburst.sql.repair.repair import repair
from mburst.sql.repair.sums import compare_sums
from mburst.units import NS_PER_DAY

WIDE = BurstDefinition(bin_ns=10 * MS, threshold=0.3)
COMPACTED = ("bins", "sources", "steps", "kept", "thinned", "recordings")  # tables that compaction writes
TIMES = [DAY + day * NS_PER_DAY + at for day in range(3) for at in (0, 43_200 * S, NS_PER_DAY - 3 * MS)]


class Life:
    """A store, and `oracle`, into which the same is recorded. `moved` has the content of damaged files, by path."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chosen = folder, random.Random(seed)
        self.oracle, self.store = StoreFolder.create(folder / "oracle"), StoreFolder.create(folder / "store")
        self.moved: dict[Path, bytes] = {}
        self.names = iter(range(1000))
        self.now_ns = DAY + 3 * NS_PER_DAY
        self.is_compacted = self.lacks_rows = False  # at all; before it was first shipped
        self.is_shipped = False
        self.truth: Any = None  # what the oracle answers, since the last recording

    def record(self) -> None:
        """One more recording, of a host that has others, or has not; some have bursts across midnight."""
        name, host = f"r{next(self.names)}", self.chosen.choice(["a", "b", "c"])
        times = self.chosen.sample(TIMES, self.chosen.randint(1, 3))
        self.truth = None
        pieces = [of for at in times for of in (incast(at, self.chosen.randint(1, 8)), quiet(at + 2 * S, 50))]
        for store in (self.store, self.oracle):
            recorded(store, name, *together(*pieces), host=host)

    def compact(self) -> None:
        """Compact now or days later. The same call again does nothing, after one more merges what it has made."""
        self.now_ns += self.chosen.choice([0, 0, NS_PER_DAY, 3 * NS_PER_DAY])
        is_dry = self.chosen.random() < 0.2
        found = [compact(self.store, KeepRules(), now_ns=self.now_ns, dry_run=is_dry) for _ in range(3)]
        assert (self.damaged() or not found[0].troubles) and (is_dry or not found[2].days)
        self.is_compacted |= not is_dry

    def ship(self) -> None:
        if self.moved:
            return
        self.lacks_rows |= self.is_compacted and not self.is_shipped
        said = ship(self.store, open_target(self.folder / "target"), ShipSettings()).troubles
        assert [str(trouble) for trouble in said if "were compacted" not in str(trouble)] == []
        expected = self.is_compacted and not self.is_shipped
        assert len(said) == expected or (self.moved and len(said) < expected)
        self.is_shipped = True
        if not self.lacks_rows and self.chosen.random() < 0.3:
            dates = [f"2024-10-{day:02}" for day in range(4, 8)]
            detected(self.folder / "target", self.folder / "results", *dates)
            expected = [without_names(burst) for burst in bursts(self.oracle)[0]]
            assert plain(results_of(self.folder / "results", "bursts")) == plain(expected)

    def damage(self) -> None:
        """Change files, so that their days are damaged until they are repaired or back."""
        found = [path for of in COMPACTED for path in sorted((self.store.path / of).glob("*/*/*.parquet"))]
        sound = [path for path in found if path.relative_to(self.store.path) not in self.moved]
        for path in self.chosen.sample(sound, min(len(sound), self.chosen.choice([1, 1, 2, 4]))):
            self.moved[path.relative_to(self.store.path)] = path.read_bytes()
            path.write_bytes(b"?")

    def damaged(self) -> list[Path]:
        return [path for path in self.moved if (self.store.path / path).exists()]

    def repair(self) -> None:
        lost = self.damaged()
        assert len(list(repair(self.store.path))) == len(lost)

    def restore(self) -> None:
        """A sound file is brought back, and what was set aside is removed, or is not."""
        for path, content in self.moved.items():
            (self.store.path / path).parent.mkdir(parents=True, exist_ok=True)
            (self.store.path / path).write_bytes(content)
            if self.chosen.random() < 0.5:
                (self.store.path / "damaged" / path).unlink(missing_ok=True)
        self.moved = {}

    def copy(self) -> None:
        """A copy is used in place of the original."""
        path = self.folder / f"store-{next(self.names)}"
        shutil.copytree(self.store.path, path)
        shutil.rmtree(self.store.path)
        self.store = StoreFolder.open(path)

    def verify(self) -> None:
        found = check(self.store.path)
        assert len(found.damaged) == len(self.damaged())
        assert len(found.missing) == len(self.moved) - len(self.damaged())
        if self.moved:
            return
        compare_sums(self.store.path, found)
        assert [line for line in found.mismatches if "in bins" in line] == []  # compactionlib's senders have no sums
        definitions = BurstDefinition(), WIDE
        self.truth = self.truth or answers(self.oracle, *definitions)
        now, totals = answers(self.store, *definitions)
        assert [row[:4] for row in totals] == [row[:4] for row in self.truth[1]]
        assert same(self.truth[0], now)


STEPS = ["record"] * 3 + ["compact"] * 4 + ["ship"] * 3 + ["damage"] * 2 + ["repair"] * 2 + ["restore"] * 2 + ["copy"]


@pytest.mark.parametrize("seed", range(2))
def test_a_store_holds_what_was_recorded_whatever_happens_to_it(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    begun = ["record", "damage", "repair", "compact", "restore"]
    done = [*begun, *life.chosen.choices(STEPS, k=6), "restore", "compact", "ship"]
    for number, step in enumerate(done):
        getattr(life, step)()
        life.verify()
        print(number, step)  # shown if it fails
    life.now_ns += 2 * NS_PER_DAY + SETTLED_NS
    life.compact()
    life.verify()
