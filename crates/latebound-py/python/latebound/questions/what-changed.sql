-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: Where did a tail change from one day to the next, and which settings changed with it?
-- Days of a host are compared with the day before them in the store. A change of a setting is a candidate, not a proof: `latebound compare` of
-- several Runs before and after decides.
-- parameter: factor DOUBLE 1.5 : how many times as long, or as short, a 99.9 % quantile must become
-- parameter: series TEXT timer_wakeup/%/latency : the series, by a pattern of LIKE: of measured wake-ups; work/%/latency is another
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 100 : how many rows
-- column: host : the host
-- column: day : the day of the change
-- column: day_before : the day that it is compared with
-- column: before_p99_9_ns : 99.9 % quantile of the day before
-- column: p99_9_ns : 99.9 % quantile of the day
-- column: before_max_ns : maximum value of the day before
-- column: max_ns : maximum value of the day
-- column: count : values of the day
-- column: setting : a setting that changed; NULL where none is known to have changed
-- column: before_value : its value at the end of the day before
-- column: value : its last value of the day
WITH extremes AS (
    SELECT host AS group_a, CAST(day AS STRING) AS group_b, SUM(count) AS count, MIN(min_ns) AS min_ns, MAX(max_ns) AS max_ns,
        SUM(COALESCE(above_count, 0)) AS above_count
    FROM series WHERE total AND series_id LIKE :series AND day BETWEEN :since AND :until
    GROUP BY host, day
),
grouped AS (
    SELECT host AS group_a, CAST(day AS STRING) AS group_b, bucket, SUM(count) AS n
    FROM buckets WHERE total AND series_id LIKE :series AND day BETWEEN :since AND :until
    GROUP BY host, day, bucket
)
-- include: quantiles.sql
, days AS (
    SELECT group_a AS host, group_b AS day, count, p99_9_ns, max_ns,
        LAG(group_b) OVER (PARTITION BY group_a ORDER BY group_b) AS day_before,
        LAG(p99_9_ns) OVER (PARTITION BY group_a ORDER BY group_b) AS before_p99_9_ns,
        LAG(max_ns) OVER (PARTITION BY group_a ORDER BY group_b) AS before_max_ns
    FROM tails
),
moved AS (
    SELECT * FROM days
    WHERE p99_9_ns > before_p99_9_ns * CAST(:factor AS DOUBLE) OR p99_9_ns * CAST(:factor AS DOUBLE) < before_p99_9_ns
),
last_values AS (
    SELECT host, CAST(day AS STRING) AS day, name, MAX_BY(value, start_us) AS value
    FROM settings GROUP BY host, day, name
),
changes AS (
    SELECT m.host, m.day, COALESCE(a.name, b.name) AS setting, b.value AS before_value, a.value
    FROM moved m
    JOIN last_values a ON a.host = m.host AND a.day = m.day
    LEFT JOIN last_values b ON b.host = m.host AND b.day = m.day_before AND b.name = a.name
    WHERE COALESCE(a.value, '') <> COALESCE(b.value, '')
)
SELECT m.host, m.day, m.day_before, m.before_p99_9_ns, m.p99_9_ns, m.before_max_ns, m.max_ns, m.count, c.setting, c.before_value, c.value
FROM moved m LEFT JOIN changes c ON c.host = m.host AND c.day = m.day
ORDER BY m.p99_9_ns / CAST(m.before_p99_9_ns AS DOUBLE) DESC, m.host, m.day, c.setting NULLS LAST
LIMIT :limit
