-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: Do processors differ in their tails?
-- parameter: series TEXT timer_wakeup/%/latency : the series, by a pattern of LIKE: of measured wake-ups; work/%/latency is another
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 50 : how many rows
-- column: cpu_model : the processor's name; NULL where a host does not tell it
-- column: cpus : how many CPUs
-- column: hosts : how many hosts
-- column: count : values
-- column: p50_ns : median
-- column: p99_ns : 99 % quantile
-- column: p99_9_ns : 99.9 % quantile
-- column: p99_99_ns : 99.99 % quantile
-- column: max_ns : the exact maximum value
-- column: above_count : values above the end of a source's histogram
WITH hardware AS (
    SELECT host, COALESCE(MAX_BY(cpu_model, start_us), '') AS cpu_model, COALESCE(CAST(MAX_BY(cpus, start_us) AS STRING), '') AS cpus
    FROM machines WHERE day BETWEEN :since AND :until GROUP BY host
),
extremes AS (
    SELECT m.cpu_model AS group_a, m.cpus AS group_b, SUM(s.count) AS count, MIN(s.min_ns) AS min_ns, MAX(s.max_ns) AS max_ns,
        SUM(COALESCE(s.above_count, 0)) AS above_count
    FROM series s JOIN hardware m ON m.host = s.host
    WHERE s.total AND s.series_id LIKE :series AND s.day BETWEEN :since AND :until
    GROUP BY m.cpu_model, m.cpus
),
summed AS (
    SELECT host, bucket, SUM(count) AS n
    FROM buckets WHERE total AND series_id LIKE :series AND day BETWEEN :since AND :until
    GROUP BY host, bucket
),
grouped AS (
    SELECT m.cpu_model AS group_a, m.cpus AS group_b, b.bucket, SUM(b.n) AS n
    FROM summed b JOIN hardware m ON m.host = b.host
    GROUP BY m.cpu_model, m.cpus, b.bucket
)
-- include: quantiles.sql
, hosts_of AS (
    SELECT m.cpu_model, m.cpus, COUNT(DISTINCT m.host) AS hosts FROM hardware m GROUP BY m.cpu_model, m.cpus
)
SELECT NULLIF(t.group_a, '') AS cpu_model, CAST(NULLIF(t.group_b, '') AS BIGINT) AS cpus, h.hosts, t.count, t.p50_ns, t.p99_ns, t.p99_9_ns,
    t.p99_99_ns, t.max_ns, t.above_count
FROM tails t JOIN hosts_of h ON h.cpu_model = t.group_a AND h.cpus = t.group_b
ORDER BY t.max_ns DESC NULLS LAST, t.group_a, t.group_b
LIMIT :limit
