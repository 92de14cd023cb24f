-- SPDX-License-Identifier: MIT OR Apache-2.0
-- title: Which unit or container makes which other late?
-- The :worst_kept worst explained activations of each series, host and day count, also before a roll-up.
-- parameter: series TEXT % : the series, by a pattern of LIKE
-- parameter: since TEXT 0000-01-01 : the first day
-- parameter: until TEXT 9999-12-31 : the last day
-- parameter: limit BIGINT 50 : how many rows
-- column: late : the unit or container that was late; its thread where it is in none
-- column: because_of : the unit or container that caused it; the thread, the handler or the kind of cause where there is none
-- column: cause_kind : the kind of cause
-- column: hosts : on how many hosts
-- column: activations : how many explained activations
-- column: total_ns : how long the late one waited because of it, over all
-- column: longest_ns : the longest single contribution
-- column: late_pod : the UID of the Kubernetes pod that was late, where the path of its control group names one
-- column: because_of_pod : the UID of the pod that caused it, in the same way
-- include: worst-of-days.sql
SELECT COALESCE(task_group, task_comm) AS late, COALESCE(cause_group, cause_comm, NULLIF(cause_subject, ''), cause_kind) AS because_of, cause_kind,
    COUNT(DISTINCT host) AS hosts, COUNT(*) AS activations, SUM(cause_ns) AS total_ns, MAX(cause_ns) AS longest_ns,
    MAX(NULLIF(REPLACE(REGEXP_EXTRACT(task_group, '/(kubepods-|kubepods-burstable-|kubepods-besteffort-)?pod([0-9a-fA-F_-]{32,})', 2), '_', '-'), '')) AS late_pod,
    MAX(NULLIF(REPLACE(REGEXP_EXTRACT(cause_group, '/(kubepods-|kubepods-burstable-|kubepods-besteffort-)?pod([0-9a-fA-F_-]{32,})', 2), '_', '-'), '')) AS because_of_pod
FROM explained
GROUP BY COALESCE(task_group, task_comm), COALESCE(cause_group, cause_comm, NULLIF(cause_subject, ''), cause_kind), cause_kind
ORDER BY total_ns DESC, late NULLS LAST, because_of NULLS LAST, cause_kind
LIMIT :limit
