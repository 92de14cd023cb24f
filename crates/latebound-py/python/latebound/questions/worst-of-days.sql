-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Part of other questions: the causes of the 32 worst activations of each host and day. Gives explained.
-- So many are kept by every roll-up (latebound-fleet, WORST_KEPT), in this order: an answer is the same before and after.
WITH explained AS (
    SELECT * FROM (
        SELECT *, DENSE_RANK() OVER (PARTITION BY host, day ORDER BY latency_ns DESC, requested_us, series_id, cpu, level, start_us, rank) AS place
        FROM worst WHERE day BETWEEN :since AND :until
    ) ranked
    WHERE place <= 32 AND series_id LIKE :series AND cause_kind IS NOT NULL
)
