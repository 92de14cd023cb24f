-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: How late are systems like this one?
-- Hosts are ordered by how many settings they share with the host that is asked about, those of the same processor first.
-- parameter: host TEXT - : the host that is asked about
-- parameter: series TEXT timer_wakeup/%/latency : the series, by a pattern of LIKE: of measured wake-ups; work/%/latency is another
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 20 : how many rows
-- column: host : a host; the one that is asked about is the first
-- column: same_processor : whether it has the same processor and as many CPUs
-- column: same_settings : how many settings have the same value
-- column: all_settings : how many settings the host that is asked about tells
-- column: kernel_release : its kernel
-- column: count : values
-- column: p50_ns : median
-- column: p99_ns : 99 % quantile
-- column: p99_9_ns : 99.9 % quantile
-- column: p99_99_ns : 99.99 % quantile
-- column: max_ns : the exact maximum value
WITH current_values AS (
    SELECT host, name, MAX_BY(value, start_us) AS value FROM settings
    WHERE day BETWEEN :since AND :until GROUP BY host, name
),
mine AS (
    SELECT name, value FROM current_values WHERE host = :host AND value IS NOT NULL
),
hardware AS (
    SELECT host, COALESCE(MAX_BY(cpu_model, start_us), '') AS cpu_model, COALESCE(MAX_BY(cpus, start_us), -1) AS cpus,
        MAX_BY(kernel_release, start_us) AS kernel_release
    FROM machines WHERE day BETWEEN :since AND :until GROUP BY host
),
alike AS (
    SELECT h.host, h.kernel_release,
        MAX(CASE WHEN h.cpu_model = o.cpu_model AND h.cpus = o.cpus THEN 1 ELSE 0 END) = 1 AS same_processor,
        COUNT(m.name) AS same_settings
    FROM hardware h
    CROSS JOIN (SELECT cpu_model, cpus FROM hardware WHERE host = :host) o
    LEFT JOIN current_values n ON n.host = h.host
    LEFT JOIN mine m ON m.name = n.name AND m.value = n.value
    GROUP BY h.host, h.kernel_release
),
nearest_hosts AS (
    SELECT host, kernel_release, same_processor, same_settings FROM alike
    ORDER BY CASE WHEN host = :host THEN 0 ELSE 1 END, same_processor DESC, same_settings DESC, host
    LIMIT :limit
),
extremes AS (
    SELECT host AS group_a, '' AS group_b, SUM(count) AS count, MIN(min_ns) AS min_ns, MAX(max_ns) AS max_ns,
        SUM(COALESCE(above_count, 0)) AS above_count
    FROM series
    WHERE total AND series_id LIKE :series AND day BETWEEN :since AND :until AND host IN (SELECT host FROM nearest_hosts)
    GROUP BY host
),
grouped AS (
    SELECT host AS group_a, '' AS group_b, bucket, SUM(count) AS n
    FROM buckets
    WHERE total AND series_id LIKE :series AND day BETWEEN :since AND :until AND host IN (SELECT host FROM nearest_hosts)
    GROUP BY host, bucket
)
-- include: quantiles.sql
SELECT a.host, a.same_processor, a.same_settings, (SELECT COUNT(*) FROM mine) AS all_settings, a.kernel_release,
    t.count, t.p50_ns, t.p99_ns, t.p99_9_ns, t.p99_99_ns, t.max_ns
FROM nearest_hosts a LEFT JOIN tails t ON t.group_a = a.host
ORDER BY CASE WHEN a.host = :host THEN 0 ELSE 1 END, a.same_processor DESC, a.same_settings DESC, a.host
