-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: Which maximum value is to be expected in a longer time?
-- The maxima of a host's hours, over all CPUs, are fitted by a generalised extreme-value distribution (latebound-stats, profile likelihood). It
-- is a forecast from what was seen, not a bound: a cause that never came is not in it.
-- parameter: hours DOUBLE 1000 : the level that one of so many hours is expected to pass
-- parameter: series TEXT % : the series, by a pattern of LIKE
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 100 : how many rows
-- group: return_level : host, series_id
-- column: host : the host
-- column: series_id : the series
-- column: observed_hours : how many hours have a value
-- column: max_ns : the largest of them
-- column: level_ns : the return level; NULL where the hours are fewer than 10 or do not fit
-- column: low_ns : lower end of its 95 % interval
-- column: high_ns : upper end; NULL where the interval has none
SELECT host, series_id, start_us - start_us % 3600000000 AS hour_us, MAX(max_ns) AS max_ns
FROM blocks
WHERE series_id LIKE :series AND day BETWEEN :since AND :until AND block_us <= 3600000000
GROUP BY host, series_id, start_us - start_us % 3600000000
ORDER BY host, series_id, hour_us
