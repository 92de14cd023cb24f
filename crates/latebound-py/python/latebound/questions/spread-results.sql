-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: What became of work that was spread, and what bounds did it find?
-- Of the results of a file that were made by the same work with the same options, the last one counts.
-- parameter: kind TEXT % : the kind of work, by a pattern of LIKE: bound, explain, compare
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 100 : how many rows
-- column: kind : the kind of work
-- column: host : the host that the files are of; unknown where nobody named it
-- column: files : how many files have a result
-- column: failed : how many of them have an error in place of a document
-- column: error : one of the errors, of the first such file by name
-- column: error_file : that file
-- column: took_ns : how long the work took, over all files
-- column: longest_ns : how long the longest took
-- column: longest_file : that file
-- column: bound_ns : the largest bound of its files; NULL where one of them does not exist, and of other work
-- column: bound_file : the first file by name that has this bound
WITH last_of AS (
    SELECT kind, host, file, options, error, took_us, verdict, bound_ns,
        ROW_NUMBER() OVER (PARTITION BY kind, host, file, options ORDER BY made_us DESC, error NULLS FIRST) AS nth
    FROM results
    WHERE kind LIKE :kind AND day BETWEEN :since AND :until
), placed AS (
    SELECT kind, host, file, error, took_us, verdict, bound_ns,
        ROW_NUMBER() OVER (PARTITION BY kind, host ORDER BY CASE WHEN error IS NULL THEN 1 ELSE 0 END, file, options) AS by_error,
        ROW_NUMBER() OVER (PARTITION BY kind, host ORDER BY took_us DESC, file, options) AS by_time,
        ROW_NUMBER() OVER (PARTITION BY kind, host ORDER BY bound_ns DESC NULLS LAST, file, options) AS by_bound
    FROM last_of
    WHERE nth = 1
)
SELECT kind, host, COUNT(*) AS files, COUNT(error) AS failed,
    MAX(CASE WHEN by_error = 1 THEN error END) AS error, MAX(CASE WHEN by_error = 1 AND error IS NOT NULL THEN file END) AS error_file,
    SUM(took_us) * 1000 AS took_ns, MAX(took_us) * 1000 AS longest_ns, MAX(CASE WHEN by_time = 1 THEN file END) AS longest_file,
    CASE WHEN COUNT(verdict) = COUNT(bound_ns) THEN MAX(bound_ns) END AS bound_ns,
    CASE WHEN COUNT(verdict) = COUNT(bound_ns) THEN MAX(CASE WHEN by_bound = 1 AND bound_ns IS NOT NULL THEN file END) END AS bound_file
FROM placed
GROUP BY kind, host
ORDER BY failed DESC, took_ns DESC, kind, host
LIMIT :limit
