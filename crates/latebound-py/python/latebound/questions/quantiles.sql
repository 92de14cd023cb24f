-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Part of other questions: quantiles of merged histograms, by the rule of latebound-model's Histogram::quantile and quantile_with_above.
-- Needs grouped(group_a, group_b, bucket, n) and extremes(group_a, group_b, count, min_ns, max_ns, above_count). Gives tails.
-- A quantile is the largest value of the bucket with the nearest rank, never above the maximum. It is NULL where fewer than one value is
-- expected beyond it, and where it lies among values above the end of a source's histogram.
, wanted AS (
    SELECT 0.5 AS q UNION ALL SELECT 0.99 UNION ALL SELECT 0.999 UNION ALL SELECT 0.9999
),
ranks AS (
    SELECT e.group_a, e.group_b, e.count, e.min_ns, e.max_ns, e.above_count, w.q,
        GREATEST(CEIL((e.count + e.above_count) * CAST(w.q AS DOUBLE) - 1e-6), 1) AS nearest
    FROM extremes e CROSS JOIN wanted w
    WHERE e.count > 0 AND (e.count + e.above_count) * (1 - CAST(w.q AS DOUBLE)) >= 1 - 1e-6
),
cumulated AS (
    SELECT group_a, group_b, bucket,
        SUM(n) OVER (PARTITION BY group_a, group_b ORDER BY bucket) AS reached
    FROM grouped
),
found AS (
    SELECT r.group_a, r.group_b, r.q, MIN(c.bucket) AS bucket, MAX(r.min_ns) AS min_ns, MAX(r.max_ns) AS max_ns
    FROM ranks r JOIN cumulated c ON c.group_a = r.group_a AND c.group_b = r.group_b AND c.reached >= r.nearest
    WHERE r.above_count = 0 OR r.nearest < r.count
    GROUP BY r.group_a, r.group_b, r.q
),
quantiles AS (
    SELECT f.group_a, f.group_b, f.q, LEAST(GREATEST(e.high_ns, f.min_ns), f.max_ns) AS value_ns
    FROM found f JOIN bucket_edges e ON e.bucket = f.bucket
),
tails AS (
    SELECT e.group_a, e.group_b, e.count, e.above_count, e.max_ns,
        MAX(CASE WHEN q.q = 0.5 THEN q.value_ns END) AS p50_ns,
        MAX(CASE WHEN q.q = 0.99 THEN q.value_ns END) AS p99_ns,
        MAX(CASE WHEN q.q = 0.999 THEN q.value_ns END) AS p99_9_ns,
        MAX(CASE WHEN q.q = 0.9999 THEN q.value_ns END) AS p99_99_ns
    FROM extremes e LEFT JOIN quantiles q ON q.group_a = e.group_a AND q.group_b = e.group_b
    GROUP BY e.group_a, e.group_b, e.count, e.above_count, e.max_ns
)
