"""Arrow rows as Spark's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

# Spark has no unsigned types.
SIGNED = {pa.uint8(): pa.int16(), pa.uint32(): pa.int64()}


def spark_rows(spark: Any, table_: pa.Table) -> Any:
    fields = [pa.field(f.name, SIGNED.get(f.type, f.type)) for f in table_.schema]
    return spark.createDataFrame(table_.cast(pa.schema(fields)))
