-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: Do kernels or settings differ in their tails?
-- An interval counts for the value that the setting had when the interval began. A sum over an hour or a day, in which a setting changed, counts
-- for the value at the beginning of that hour or day. Hosts differ in more than one setting: this shows where to look, not what causes it.
-- parameter: setting TEXT kernel_release : the setting's name: governor, preemption, config.CONFIG_HZ
-- parameter: series TEXT timer_wakeup/%/latency : the series, by a pattern of LIKE: of measured wake-ups; work/%/latency is another
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 50 : how many rows
-- column: value : the setting's value; NULL where a host does not tell it
-- column: hosts : how many hosts had it
-- column: count : values
-- column: p50_ns : median
-- column: p99_ns : 99 % quantile
-- column: p99_9_ns : 99.9 % quantile
-- column: p99_99_ns : 99.99 % quantile
-- column: max_ns : the exact maximum value
-- column: above_count : values above the end of a source's histogram
WITH held AS (
    SELECT host, value, start_us AS from_us,
        LEAD(start_us) OVER (PARTITION BY host ORDER BY start_us) AS to_us
    FROM settings WHERE name = :setting
),
timed AS (
    SELECT DISTINCT host, start_us FROM series WHERE total AND series_id LIKE :series AND day BETWEEN :since AND :until
),
valued AS (
    SELECT t.host, t.start_us, COALESCE(MAX(h.value), '') AS value
    FROM timed t LEFT JOIN held h
        ON h.host = t.host AND h.from_us <= t.start_us AND (h.to_us IS NULL OR t.start_us < h.to_us)
    GROUP BY t.host, t.start_us
),
extremes AS (
    SELECT v.value AS group_a, '' AS group_b, SUM(s.count) AS count, MIN(s.min_ns) AS min_ns, MAX(s.max_ns) AS max_ns,
        SUM(COALESCE(s.above_count, 0)) AS above_count
    FROM series s JOIN valued v ON v.host = s.host AND v.start_us = s.start_us
    WHERE s.total AND s.series_id LIKE :series AND s.day BETWEEN :since AND :until
    GROUP BY v.value
),
grouped AS (
    SELECT v.value AS group_a, '' AS group_b, b.bucket, SUM(b.count) AS n
    FROM buckets b JOIN valued v ON v.host = b.host AND v.start_us = b.start_us
    WHERE b.total AND b.series_id LIKE :series AND b.day BETWEEN :since AND :until
    GROUP BY v.value, b.bucket
)
-- include: quantiles.sql
, hosts_of AS (
    SELECT value, COUNT(DISTINCT host) AS hosts FROM valued GROUP BY value
)
SELECT NULLIF(t.group_a, '') AS value, h.hosts, t.count, t.p50_ns, t.p99_ns, t.p99_9_ns, t.p99_99_ns, t.max_ns, t.above_count
FROM tails t JOIN hosts_of h ON h.value = t.group_a
ORDER BY t.max_ns DESC NULLS LAST, t.group_a
LIMIT :limit
