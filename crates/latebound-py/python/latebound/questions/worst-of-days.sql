-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Part of other questions: the causes of the :worst_kept worst activations of each series, host and day. Gives explained.
-- So many are kept by every roll-up, in this order: an answer is the same before and after.
WITH explained AS (
    SELECT * FROM (
        SELECT *, DENSE_RANK() OVER (PARTITION BY host, day, series_id ORDER BY latency_ns DESC, requested_us, cpu, level, start_us, rank) AS place
        FROM worst WHERE series_id LIKE :series AND day BETWEEN :since AND :until
    ) ranked
    WHERE place <= :worst_kept AND cause_kind IS NOT NULL
)
