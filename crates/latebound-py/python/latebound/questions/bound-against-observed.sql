-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: How far is what was seen from what is possible?
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 100 : how many rows
-- column: host : the host
-- column: cpu : the CPU; NULL for a bound of all CPUs
-- column: verdict : bound, or estimate where the evidence is less than the theorem asks for
-- column: bound : the view of the bound that speaks for the CPU (docs: reference, bound)
-- column: bound_ns : the largest bound; NULL where one of them does not exist
-- column: observed_max_ns : the largest observed latency; NULL where none was measured
-- column: ratio : observed_max_ns as a part of bound_ns
-- column: passed : whether a value passed the bound of its own interval: then the bound or the measurement is wrong; an estimate can be passed
SELECT host, cpu, verdict, bound, CASE WHEN COUNT(*) = COUNT(bound_ns) THEN MAX(bound_ns) END AS bound_ns,
    MAX(observed_max_ns) AS observed_max_ns,
    CASE WHEN COUNT(*) = COUNT(bound_ns) AND MAX(bound_ns) > 0 THEN CAST(MAX(observed_max_ns) AS DOUBLE) / MAX(bound_ns) END AS ratio,
    MAX(CASE WHEN observed_max_ns > bound_ns THEN 1 ELSE 0 END) = 1 AS passed
FROM bounds
WHERE chosen AND day BETWEEN :since AND :until
GROUP BY host, cpu, verdict, bound
ORDER BY passed DESC NULLS LAST, ratio DESC NULLS LAST, host, cpu NULLS LAST, verdict, bound
LIMIT :limit
