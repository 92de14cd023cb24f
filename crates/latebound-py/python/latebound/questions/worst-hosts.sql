-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: Which hosts are most late?
-- parameter: series TEXT timer_wakeup/%/latency : the series, by a pattern of LIKE: of measured wake-ups; work/%/latency is another
-- parameter: since TEXT 0000-01-01 : the first day, as 2026-11-27
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 20 : how many rows
-- column: host : the host
-- column: count : values, over all CPUs and days chosen
-- column: lost : values that are known to be lost
-- column: p50_ns : median
-- column: p99_ns : 99 % quantile; NULL where too few values tell it
-- column: p99_9_ns : 99.9 % quantile
-- column: p99_99_ns : 99.99 % quantile
-- column: max_ns : the exact maximum value
-- column: above_count : values above the end of a source's histogram, of which only that is known; they are not in count
-- column: worst_series : the series of the maximum value
-- column: worst_day : its day
-- column: cause : the longest cause of the worst activation that was explained: its kind and its subject; NULL where none was explained
-- column: cause_took_ns : how long that cause took
WITH chosen AS (
    SELECT host, series_id, day, count, lost, min_ns, max_ns, COALESCE(above_count, 0) AS above_count
    FROM series WHERE total AND series_id LIKE :series AND day BETWEEN :since AND :until
),
extremes AS (
    SELECT host AS group_a, '' AS group_b, SUM(count) AS count, MIN(min_ns) AS min_ns, MAX(max_ns) AS max_ns,
        SUM(above_count) AS above_count
    FROM chosen GROUP BY host
),
grouped AS (
    SELECT host AS group_a, '' AS group_b, bucket, SUM(count) AS n
    FROM buckets WHERE total AND series_id LIKE :series AND day BETWEEN :since AND :until
    GROUP BY host, bucket
)
-- include: quantiles.sql
, losses_of AS (
    SELECT host, SUM(lost) AS lost FROM chosen GROUP BY host
),
placed AS (
    SELECT host, series_id, day, ROW_NUMBER() OVER (PARTITION BY host ORDER BY max_ns DESC, day, series_id) AS place
    FROM chosen WHERE max_ns IS NOT NULL
),
explained AS (
    SELECT host, cause_kind, cause_subject, cause_ns,
        ROW_NUMBER() OVER (PARTITION BY host ORDER BY latency_ns DESC, start_us, rank, series_id) AS place
    FROM worst
    WHERE cause_rank = 1 AND cause_kind IS NOT NULL AND series_id LIKE :series AND day BETWEEN :since AND :until
)
SELECT t.group_a AS host, t.count, l.lost, t.p50_ns, t.p99_ns, t.p99_9_ns, t.p99_99_ns, t.max_ns, t.above_count,
    p.series_id AS worst_series, p.day AS worst_day, x.cause_kind || ' ' || x.cause_subject AS cause, x.cause_ns AS cause_took_ns
FROM tails t
JOIN losses_of l ON l.host = t.group_a
LEFT JOIN placed p ON p.host = t.group_a AND p.place = 1
LEFT JOIN explained x ON x.host = t.group_a AND x.place = 1
ORDER BY t.max_ns DESC NULLS LAST, t.group_a
LIMIT :limit
