-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: What makes the worst activations late?
-- The :worst_kept worst explained activations of each series, host and day count, also before a roll-up.
-- parameter: series TEXT % : the series, by a pattern of LIKE
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 30 : how many rows
-- column: cause_kind : the kind of cause (docs: reference, causes)
-- column: cause_subject : what exactly: a handler, a thread, a function
-- column: hosts : on how many hosts
-- column: activations : of how many explained activations it is a cause
-- column: first_of : of how many it is the longest cause
-- column: total_ns : how long it took, over all of them
-- column: share : total_ns as a part of the latency of all explained activations that were chosen, from 0 to 1
-- column: longest_ns : its longest single contribution
-- include: worst-of-days.sql
, all_latency AS (
    SELECT SUM(latency_ns) AS total_ns FROM explained WHERE cause_rank = 1
)
SELECT c.cause_kind, c.cause_subject, COUNT(DISTINCT c.host) AS hosts, COUNT(*) AS activations,
    SUM(CASE WHEN c.cause_rank = 1 THEN 1 ELSE 0 END) AS first_of, SUM(c.cause_ns) AS total_ns,
    CAST(SUM(c.cause_ns) AS DOUBLE) / MAX(a.total_ns) AS share, MAX(c.cause_ns) AS longest_ns
FROM explained c CROSS JOIN all_latency a
GROUP BY c.cause_kind, c.cause_subject
ORDER BY total_ns DESC, c.cause_kind, c.cause_subject NULLS LAST
LIMIT :limit
