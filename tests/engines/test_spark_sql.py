"""The questions to a fleet's results, in Spark SQL, with the answers worked out row by row: `make test-engines`, and no
other run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleettables
import pytest
from fleet_oracle import Fleet
from questioned import HOSTS, SPANS, answers_of_fleet_ask, documented, real_results, same

from mburst.sql import questions

if not shutil.which("java"):
    pytest.skip("Spark needs Java: apt-get install openjdk-17-jre-headless", allow_module_level=True)
pyspark_sql = pytest.importorskip("pyspark.sql")
INVENTORY = "rack STRING, host STRING, service STRING, address STRING, added_ns BIGINT, removed_ns BIGINT"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings = {
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={tmp_path_factory.mktemp('java')}",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # dates are text, as docs/fleet.md has them
    }
    builder = pyspark_sql.SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def create(spark: Any, results: Path) -> None:
    """The tables over RESULTS, as docs/fleet.md says it."""
    for table in fleettables.SCHEMAS:
        spark.catalog.dropTempView(table)
    for table in fleettables.SCHEMAS:
        if (results / table).exists():
            spark.read.parquet(str(results / table)).createOrReplaceTempView(table)


@pytest.mark.parametrize("seed", range(2))
def test_an_answer_is_what_the_rows_add_up_to(spark: Any, tmp_path: Path, seed: int) -> None:
    found, inventory = fleettables.tables(seed, racks=3, bursts=60), HOSTS if seed else []
    fleettables.write(found, tmp_path)
    create(spark, tmp_path)
    listed = [tuple(host[column] for column in fleettables.INVENTORY.names) for host in inventory]
    spark.createDataFrame(listed, INVENTORY).createOrReplaceTempView("inventory")
    for name in questions.names():
        for since_ns, until_ns in SPANS:
            asked = f"SELECT CAST({since_ns} AS BIGINT) AS since_ns, CAST({until_ns} AS BIGINT) AS until_ns"
            spark.sql(asked).createOrReplaceTempView("asked")
            answer = [tuple(row) for row in spark.sql(questions.text(name)).collect()]
            same(answer, getattr(Fleet(found, (since_ns, until_ns), inventory), name.partition("_")[2])())


def test_real_results_by_the_statements_of_the_page(spark: Any, tmp_path: Path) -> None:
    """Where there is no switch port, and so no folder of their tables."""
    results = real_results(tmp_path)
    create(spark, results)
    for statement in documented():
        spark.sql(statement.replace("REPLACE VIEW", "REPLACE TEMPORARY VIEW"))
    [of_bursts] = documented("Spark SQL")
    for table in fleettables.PORTS:
        spark.sql(of_bursts.replace("bursts", table))
    for name, wanted in answers_of_fleet_ask(results).items():
        same([tuple(row) for row in spark.sql(questions.text(name)).collect()], wanted)
