-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: What was measured, and on how many hosts?
-- Other questions take a pattern from here as --series. Series of one mechanism and quantity are of one kind: their values can be added up.
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 100 : how many rows
-- column: pattern : fits all series of the mechanism and the quantity
-- column: series : how many series
-- column: hosts : on how many hosts
-- column: count : values
-- column: max_ns : the exact maximum value
SELECT mechanism || '/%/' || quantity AS pattern, COUNT(DISTINCT series_id) AS series, COUNT(DISTINCT host) AS hosts, SUM(count) AS count,
    MAX(max_ns) AS max_ns
FROM series
WHERE total AND day BETWEEN :since AND :until
GROUP BY mechanism, quantity
ORDER BY mechanism, quantity
LIMIT :limit
