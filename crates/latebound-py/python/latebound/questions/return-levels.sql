-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: Which maximum value is to be expected in a longer time?
-- The block maxima of a host and series are fitted by a generalised extreme-value distribution (latebound-stats, profile likelihood). Blocks of one
-- length only are fitted together.
-- parameter: blocks DOUBLE 1000 : the level that one of so many blocks is expected to pass
-- parameter: series TEXT % : the series, by a pattern of LIKE
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 100 : how many rows
-- group: return_level : host, series_id, block_us; maxima; blocks
-- column: host : the host
-- column: series_id : the series
-- column: block_us : how long a block is
-- column: observed_blocks : how many blocks have a value
-- column: max_ns : the largest block maximum
-- column: level_ns : the return level; NULL where the blocks are too few or do not fit
-- column: low_ns : lower end of its 95 % interval
-- column: high_ns : upper end; NULL where the interval has none
SELECT host, series_id, block_us, start_us, MAX(max_ns) AS max_ns
FROM blocks
WHERE series_id LIKE :series AND day BETWEEN :since AND :until AND max_ns IS NOT NULL
GROUP BY host, series_id, block_us, start_us
ORDER BY host, series_id, block_us, start_us
