# SPDX-License-Identifier: MIT OR Apache-2.0
"""The questions that ship, against answers that are computed another way."""

import json
import math
import random
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from schemas import assert_follows

import latebound
from latebound import ask as asking
from latebound.ask import AskError, ask, questions

TYPES = {
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DECIMAL(38,0)": pa.decimal128(38, 0),
}
DAYS = ["2026-11-25", "2026-11-26", "2026-11-27"]
SERIES = "timer_wakeup/measure/latency"
CAUSES = [("irq", "eth0"), ("softirq", "NET_RX"), ("preempted", "kworker")]
POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c3d4e_5f60_7182_93a4_b5c6d7e8f901.slice"


def columns(table):
    return {name: TYPES[kind] for name, kind in asking.TABLES[table]}


def write(folder, table, rows, leave_out=(), earlier=()):
    chosen = [(name, kind) for name, kind in columns(table).items() if name not in leave_out]
    schema = pa.schema([*chosen, *((name, pa.int64()) for name in earlier)])
    path = folder / f"{table}-{len(list(folder.iterdir()))}.parquet"
    rows = [row | {"day": date.fromisoformat(row["day"])} for row in rows]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return str(path)


def bounds_of(value):
    """The bucket of a value by the bucket rule: one each below 256, then 128 for each power of two."""
    if value < 256:
        return value, value
    shift = value.bit_length() - 8
    low = (value >> shift) << shift
    return low, low + (1 << shift) - 1


def number_of(value):
    """The number of the bucket of a value."""
    shift = max(value.bit_length() - 8, 0)
    return 128 * shift + (value >> shift)


def write_buckets(folder, rows):
    """Buckets by their numbers, and some as files of the first version have them: by their edges."""
    numbered, earlier = [], []
    for row in rows:
        low = row["bucket_low_ns"]
        if row["host"] < "rt-02":
            earlier.append(row)
        else:
            numbered.append({name: value for name, value in row.items() if not name.startswith("bucket_")} | {"bucket": number_of(low)})
    edges = ("bucket_low_ns", "bucket_high_ns")
    return [write(folder, "buckets", numbered), write(folder, "buckets", earlier, leave_out=("bucket",), earlier=edges)]


class Fleet:
    """Hosts with values, a store of them as data files, and the values themselves to compute with."""

    def __init__(self, folder, seed, hosts=5):
        chance = random.Random(seed)
        self.values = {}
        self.settings = {}
        self.worst = []
        self.blocks = {}
        rows = {table: [] for table in asking.TABLES}
        for number in range(hosts):
            host = f"rt-{number:02}"
            kernel = chance.choice(["6.1.0-rt", "6.12.0-rt"])
            for place, day in enumerate(DAYS):
                governor = "performance" if number != 1 or place < 2 else "powersave"
                scale = 4 if governor == "powersave" else 1
                for hour in range(2):
                    start = (place * 24 + hour) * 3_600_000_000
                    values = [int(chance.lognormvariate(9, 0.6) * scale) for _ in range(chance.choice([700, 2500]))]
                    self.values.setdefault(host, {}).setdefault((day, start), []).extend(values)
                    base = {"day": day, "host": host, "level": "hour", "start_us": start, "series_id": SERIES}
                    rows["series"].append(
                        base
                        | {"total": True, "count": len(values), "sum_ns": sum(values), "min_ns": min(values), "max_ns": max(values), "lost": 2}
                    )
                    buckets = {}
                    for value in values:
                        buckets[bounds_of(value)] = buckets.get(bounds_of(value), 0) + 1
                    for (low, high), count in sorted(buckets.items()):
                        rows["buckets"].append(base | {"total": True, "bucket_low_ns": low, "bucket_high_ns": high, "count": count})
                    # The worst CPU's own row, which no sum may take.
                    rows["series"].append(rows["series"][-1] | {"total": False, "cpu": 3})
                    rows["buckets"].append(rows["buckets"][-1] | {"total": False, "cpu": 3})
                    kind, subject = chance.choice(CAUSES)
                    explained = {"latency_ns": max(values), "task_comm": "loop", "task_group": "a.service", "rank": 1}
                    first, second = max(values) * 3 // 4, max(values) // 5
                    for cause_rank, (cause, taken) in enumerate([((kind, subject), first), (("idle_exit", "C6"), second)], 1):
                        rows["worst"].append(
                            base
                            | explained
                            | {"cause_rank": cause_rank, "cause_kind": cause[0], "cause_subject": cause[1], "cause_ns": taken}
                            | ({"cause_group": POD} if cause[0] == "preempted" else {})
                        )
                    self.worst.append((host, start, max(values), (kind, subject), first, second))
                for name, value in (("governor", governor), ("kernel_release", kernel)):
                    rows["settings"].append({"day": day, "host": host, "start_us": place * 24 * 3_600_000_000, "name": name, "value": value})
                    self.settings[(host, day, name)] = value
                for block in range(20):
                    top = {"block_us": 60_000_000, "series_id": SERIES, "cpu": block % 2, "max_ns": int(chance.gammavariate(8, 4000))}
                    self.blocks.setdefault(host, []).append(top["max_ns"])
                    rows["blocks"].append({"day": day, "host": host, "start_us": (place * 24 + block // 2) * 3_600_000_000 + block * 60_000_000} | top)
                rows["machines"].append(
                    {"day": day, "host": host, "start_us": place * 24 * 3_600_000_000, "cpu_model": "A" if number % 2 else "B", "cpus": 64}
                    | {"kernel_release": kernel}
                )
                rows["bounds"].append({"day": day, "host": host, "level": "hour", "start_us": place, "bound": "replay", "chosen": True, "verdict": "bound"})
                rows["bounds"][-1] |= {"bound_ns": 100_000 + place, "observed_max_ns": 200_000 if number == 2 else 50_000, "cpu": None}
                for again in range(2):
                    # Made twice; the first time host 2 failed on the last day, and host 3 failed at last.
                    failed = "it is cut" if place == 2 and number == 2 + again else None
                    made = {"file": f"/traces/{host}-{day}.dat", "kind": "bound", "options": "{}", "made_us": again, "took_us": 1000 + place, "error": failed}
                    made |= {} if failed else {"verdict": "bound", "bound_ns": 100_000 + place}
                    rows["results"].append({"day": day, "host": host, "start_us": place} | made)
        self.files = {table: [write(folder, table, rows[table])] for table in rows if rows[table] and table != "buckets"}
        self.files["buckets"] = write_buckets(folder, rows["buckets"])


def quantile(values, q):
    """By nearest rank, as the largest value of the bucket, where at least one value is expected beyond it."""
    if len(values) * (1 - q) < 1 - 1e-6:
        return None
    rank = max(1, math.ceil(len(values) * q - 1e-6))
    return min(max(bounds_of(sorted(values)[rank - 1])[1], min(values)), max(values))


def tail(values):
    return [quantile(values, q) for q in (0.5, 0.99, 0.999, 0.9999)] + [max(values)]


TAIL = ["p50_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "max_ns"]


def shown(row, names=TAIL):
    return [row[name] for name in names]


@pytest.fixture(params=range(3))
def fleet(tmp_path, request):
    return Fleet(tmp_path, request.param)


def of_host(fleet, host):
    return [value for values in fleet.values[host].values() for value in values]


def test_hosts_are_ordered_by_their_worst_value(fleet):
    rows = ask("worst-hosts", files=fleet.files).to_dicts()
    worst = sorted(fleet.values, key=lambda host: -max(of_host(fleet, host)))
    assert [row["host"] for row in rows] == worst
    for row in rows:
        values = of_host(fleet, row["host"])
        assert (row["count"], row["lost"], row["above_count"]) == (len(values), 12, 0)
        assert shown(row) == tail(values)
        (_, _, longest, cause, first, _) = max((one for one in fleet.worst if one[0] == row["host"]), key=lambda one: one[2])
        assert longest == row["max_ns"] and row["cause"] == " ".join(cause) and row["cause_took_ns"] == first


def test_days_and_series_choose_rows(fleet):
    rows = ask("worst-hosts", files=fleet.files, since=DAYS[1], until=DAYS[1], limit=1).to_dicts()
    (row,) = rows
    values = [value for (day, _), some in fleet.values[row["host"]].items() if day == DAYS[1] for value in some]
    assert shown(row) == tail(values) and row["worst_day"] == DAYS[1]
    assert ask("worst-hosts", files=fleet.files, series="softirq/%").rows == []


def test_tails_are_those_of_the_settings_in_force(fleet):
    for setting in ("governor", "kernel_release"):
        rows = ask("tails-by-setting", files=fleet.files, setting=setting).to_dicts()
        expected, hosts = {}, {}
        for host, intervals in fleet.values.items():
            for (day, _), values in intervals.items():
                value = fleet.settings[(host, day, setting)]
                expected.setdefault(value, []).extend(values)
                hosts.setdefault(value, set()).add(host)
        assert {row["value"] for row in rows} == set(expected)
        for row in rows:
            assert shown(row) == tail(expected[row["value"]]) and row["hosts"] == len(hosts[row["value"]])


def test_a_setting_that_nobody_tells_is_unknown(fleet):
    (row,) = ask("tails-by-setting", files=fleet.files, setting="nohz_full").to_dicts()
    assert row["value"] is None and row["hosts"] == len(fleet.values)


def test_tails_by_hardware_hold_all_hosts(fleet):
    rows = {row["cpu_model"]: row for row in ask("tails-by-hardware", files=fleet.files).to_dicts()}
    for model, odd in (("A", 1), ("B", 0)):
        values = [value for host in fleet.values if int(host[3:]) % 2 == odd for value in of_host(fleet, host)]
        assert shown(rows[model]) == tail(values) and rows[model]["cpus"] == 64


def test_the_planted_change_is_found_with_its_setting(fleet):
    rows = ask("what-changed", files=fleet.files, factor=2).to_dicts()
    assert [(row["host"], row["day"], row["setting"], row["before_value"], row["value"]) for row in rows] == [
        ("rt-01", DAYS[2], "governor", "performance", "powersave")
    ]
    before = [value for (day, _), some in fleet.values["rt-01"].items() if day == DAYS[1] for value in some]
    assert rows[0]["before_p99_9_ns"] == quantile(before, 0.999)


def test_causes_add_up(fleet):
    rows = ask("top-causes", files=fleet.files).to_dicts()
    total = sum(one[2] for one in fleet.worst)
    assert sum(row["total_ns"] for row in rows) == sum(one[4] + one[5] for one in fleet.worst)
    assert sum(row["first_of"] for row in rows) == len(fleet.worst)
    idle = next(row for row in rows if row["cause_kind"] == "idle_exit")
    assert idle["activations"] == len(fleet.worst) and idle["first_of"] == 0
    assert math.isclose(idle["share"], sum(one[5] for one in fleet.worst) / total)


def test_units_are_blamed_before_threads(fleet):
    rows = ask("who-makes-whom-late", files=fleet.files).to_dicts()
    assert {row["late"] for row in rows} == {"a.service"}
    preempted = [row for row in rows if row["cause_kind"] == "preempted"]
    assert preempted and all(row["because_of"] == POD for row in preempted)
    pods = {(row["late_pod"], row["because_of_pod"]) for row in rows}
    assert pods == {(None, None), (None, "1b2c3d4e-5f60-7182-93a4-b5c6d7e8f901")}
    assert sum(row["total_ns"] for row in rows) == sum(one[4] + one[5] for one in fleet.worst)


def test_a_bound_that_was_passed_comes_first(fleet):
    rows = ask("bound-against-observed", files=fleet.files).to_dicts()
    assert rows[0]["host"] == "rt-02" and rows[0]["passed"] is True and not any(row["passed"] for row in rows[1:])
    assert rows[0]["bound_ns"] == 100_002 and math.isclose(rows[0]["ratio"], 200_000 / 100_002)


def test_the_last_result_of_a_file_counts_and_failures_come_first(fleet):
    rows = ask("spread-results", files=fleet.files).to_dicts()
    assert [row["host"] for row in rows][0] == "rt-03" and [row["failed"] for row in rows] == [1, 0, 0, 0, 0]
    first, second = rows[0], rows[1]
    assert first["error"] == "it is cut" and first["error_file"] == f"/traces/rt-03-{DAYS[2]}.dat" and first["bound_ns"] == 100_001
    assert second["error_file"] is None and second["bound_ns"] == 100_002 and second["bound_file"].endswith(f"{DAYS[2]}.dat")
    assert (second["files"], second["took_ns"], second["longest_ns"]) == (3, 3_003_000, 1_002_000)
    assert ask("spread-results", files=fleet.files, kind="explain").rows == []


def test_systems_like_this_one_begin_with_itself(fleet):
    rows = ask("systems-like", files=fleet.files, host="rt-03").to_dicts()
    assert rows[0]["host"] == "rt-03" and rows[0]["same_settings"] == rows[0]["all_settings"] == 2
    assert [row["same_processor"] for row in rows] == sorted((row["same_processor"] for row in rows), reverse=True)
    for row in rows:
        assert shown(row) == tail(of_host(fleet, row["host"]))


def test_return_levels_are_those_of_the_hours_of_all_cpus(fleet):
    rows = ask("return-levels", files=fleet.files, hours=200).to_dicts()
    assert {row["host"] for row in rows} == set(fleet.values)
    for row in rows:
        assert row["observed_hours"] == 10 * len(DAYS)
        maxima = [max(pair) for pair in zip(fleet.blocks[row["host"]][::2], fleet.blocks[row["host"]][1::2], strict=True)]
        assert row["max_ns"] == max(maxima)
        assert (row["low_ns"], row["level_ns"], row["high_ns"]) == (latebound.return_level(maxima, 200) or (None, None, None))
    assert any(row["level_ns"] for row in rows)
    # The highest come first, however few are asked for.
    highest = sorted(rows, key=lambda row: (row["level_ns"] is None, -(row["level_ns"] or 0), row["host"]))
    assert rows == highest and ask("return-levels", files=fleet.files, hours=200, limit=2).to_dicts() == highest[:2]


def test_values_above_a_histogram_take_quantiles_with_them(tmp_path):
    base = {"day": DAYS[0], "host": "h", "level": "hour", "start_us": 0, "series_id": SERIES, "total": True}
    series = base | {"count": 1000, "min_ns": 5, "max_ns": 90_000, "lost": 0, "above_count": 20, "above_ns": 80_000}
    buckets = [base | {"bucket": number_of(value), "count": count} for value, count in ((5, 999), (90_000, 1))]
    files = {"series": [write(tmp_path, "series", [series])], "buckets": [write(tmp_path, "buckets", buckets)]}
    (row,) = ask("worst-hosts", files=files).to_dicts()
    # Rank 1010 of 1020 lies among the 20 of which only a limit is known.
    assert shown(row) == [5, None, None, None, 90_000] and row["above_count"] == 20


def test_values_of_another_kind_are_not_added_to_those_of_wakeups(tmp_path):
    base = {"day": DAYS[0], "host": "h", "level": "hour", "start_us": 0, "total": True, "lost": 0}
    kinds = [("timer_wakeup", "latency", 3_000), ("timer_wakeup", "latency_naive", 4_000), ("softirq", "latency", 90_000), ("work", "execution", 5_000_000)]
    series, buckets = [], []
    for mechanism, quantity, value in kinds:
        one = base | {"series_id": f"{mechanism}/of/{quantity}"}
        series.append(one | {"mechanism": mechanism, "quantity": quantity, "count": 200, "min_ns": value, "max_ns": value})
        buckets.append(one | {"bucket": number_of(value), "count": 200})
    machine = {"day": DAYS[0], "host": "h", "start_us": 0, "cpu_model": "A", "cpus": 1}
    setting = {"day": DAYS[0], "host": "h", "start_us": 0, "name": "governor", "value": "performance"}
    rows = {"series": series, "buckets": buckets, "machines": [machine], "settings": [setting]}
    files = {table: [write(tmp_path, table, of)] for table, of in rows.items()}
    for name, given in (("worst-hosts", {}), ("tails-by-setting", {}), ("tails-by-hardware", {}), ("systems-like", {"host": "h"})):
        (row,) = ask(name, files=files, **given).to_dicts()
        assert (row["count"], row["p50_ns"], row["max_ns"]) == (200, 3_000, 3_000), name
        (row,) = ask(name, files=files, series="softirq/%/latency", **given).to_dicts()
        assert (row["count"], row["max_ns"]) == (200, 90_000), name
        nothing = asking.as_table(ask(name, files=files, series="hrtimer/%/latency", **given)) if name == "worst-hosts" else "latebound-ask series"
        assert "latebound-ask series" in nothing
    told = ask("series", files=files).to_dicts()
    assert [(row["pattern"], row["series"], row["hosts"], row["count"], row["max_ns"]) for row in told] == [
        (f"{mechanism}/%/{quantity}", 1, 1, 200, value) for mechanism, quantity, value in sorted(kinds)
    ]


def test_a_unit_that_is_little_late_is_answered_beside_one_that_is_late(tmp_path):
    rows = []
    for unit, latency, count in (("/nginx.service", 5_000_000, 3 * asking.WORST_KEPT), ("/loop.service", 50_000, asking.WORST_KEPT + 4)):
        for number in range(count):
            row = {"day": DAYS[0], "host": "h", "level": "interval", "start_us": number, "rank": 1, "series_id": f"thread_wakeup/{unit}/latency"}
            row |= {"requested_us": number, "latency_ns": latency + number, "task_comm": "t", "task_group": unit, "cause_rank": 1, "cpu": 0}
            rows.append(row | {"cause_kind": "task_first", "cause_subject": "hog", "cause_comm": "hog", "cause_ns": latency + number, "unexplained_ns": 0})
    files = {"worst": [write(tmp_path, "worst", rows)]}
    told = {row["late"]: row for row in ask("who-makes-whom-late", files=files).to_dicts()}
    assert {unit: row["activations"] for unit, row in told.items()} == {"/nginx.service": asking.WORST_KEPT, "/loop.service": asking.WORST_KEPT}
    assert told["/loop.service"]["longest_ns"] == 50_000 + asking.WORST_KEPT + 3
    (chosen,) = ask("top-causes", files=files, series="thread_wakeup//loop.service/latency").to_dicts()
    assert (chosen["activations"], chosen["longest_ns"], chosen["share"]) == (asking.WORST_KEPT, 50_000 + asking.WORST_KEPT + 3, 1.0)


def test_an_empty_store_answers_every_question_with_nothing():
    for one in questions():
        given = {"host": "h"} if one.name == "systems-like" else {}
        answer = ask(one.name, files={}, **given)
        assert answer.rows == [], one.name
        assert_follows(asking.as_json(answer), "answer")


def test_files_of_an_older_version_lack_columns(tmp_path):
    row = {"day": DAYS[0], "host": "h", "level": "hour", "start_us": 0, "series_id": SERIES, "total": True, "count": 3, "min_ns": 1, "max_ns": 9}
    files = {"series": [write(tmp_path, "series", [row], leave_out=("lost", "above_count", "evidence"))]}
    (answer,) = ask("worst-hosts", files=files).to_dicts()
    assert answer["max_ns"] == 9 and answer["lost"] is None


def test_every_column_of_an_answer_is_documented(fleet):
    for one in questions():
        if one.group:
            continue
        given = {"host": "rt-00"} if one.name == "systems-like" else {}
        connection = asking._duckdb("1GiB", None)
        asking.duckdb_tables(connection, fleet.files)
        values = asking.values_of(one, given)
        statement = asking.re.sub(r"(?<!:):([a-z_]+)", r"$\1", asking._without_comments(one.sql))
        result = connection.execute(statement, {name: value for name, value in values.items() if f"${name}" in statement})
        assert [column[0] for column in result.description] == [name for name, _ in one.columns], one.name
        assert one.title and all(meaning for _, meaning in one.columns) and all(one.meaning for one in one.parameters)


def test_names_from_a_store_cannot_speak_to_a_terminal_or_a_page(tmp_path):
    host = "x\x1b[2J<script>alert(1)</script>\n"
    row = {"day": DAYS[0], "host": host, "level": "hour", "start_us": 0, "series_id": SERIES, "total": True, "count": 3, "min_ns": 1}
    files = {"series": [write(tmp_path, "series", [row | {"max_ns": 9}])]}
    answer = ask("worst-hosts", files=files)
    assert "\x1b" not in asking.as_table(answer) and "x\\x1b[2J" in asking.as_table(answer)
    assert "<script>" not in asking.as_page(answer) and "\x1b" not in asking.as_page(answer)
    assert json.loads(asking.as_json(answer))["rows"][0]["host"] == host


def test_file_names_with_quotes_are_no_statements(tmp_path):
    folder = tmp_path / "a'); DROP TABLE x; --"
    folder.mkdir()
    row = {"day": DAYS[0], "host": "h", "level": "hour", "start_us": 0, "series_id": SERIES, "total": True, "count": 3, "min_ns": 1}
    files = {"series": [write(folder, "series", [row | {"max_ns": 9}])]}
    assert len(ask("worst-hosts", files=files).rows) == 1


def test_wrong_words_are_answered_with_the_right_ones():
    for given, told in (({"lmit": 3}, "--limit"), ({"limit": "many"}, "a whole number")):
        with pytest.raises(AskError, match=told):
            ask("worst-hosts", files={}, **given)
    with pytest.raises(AskError, match="--host is needed"):
        ask("systems-like", files={})
    with pytest.raises(AskError, match="--list"):
        ask("worst-hots", files={})


def test_the_command_line_lists_describes_and_fails(capsys):
    assert asking.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(one.name in listed for one in questions())
    assert asking.main(["worst-hosts", "--help"]) == 0
    assert "p99_9_ns" in capsys.readouterr().out
    assert asking.main(["worst-hosts"]) == 1
    assert "--store" in capsys.readouterr().err
    assert asking.main(["worst-hosts", "--limit"]) == 1
    assert "needs a value" in capsys.readouterr().err
    assert asking.main(["worst-hosts", "--sql"]) == 0
    assert "cumulated AS" in capsys.readouterr().out


def test_every_format_has_every_row(fleet):
    answer = ask("worst-hosts", files=fleet.files)
    for name, show in asking._FORMATS.items():
        assert all(host in show(answer) for host in fleet.values), name
    assert sys.getsizeof(asking.as_csv(answer)) > 0


def test_the_json_of_every_answer_follows_its_schema(fleet):
    for one in questions():
        answer = ask(one.name, files=fleet.files, **({"host": "rt-00"} if one.name == "systems-like" else {}))
        assert_follows(asking.as_json(answer), "answer")
        assert all(set(row) == set(answer.columns) for row in json.loads(asking.as_json(answer))["rows"]), one.name


def test_the_manual_lists_the_questions_as_they_are():
    page = Path(__file__).parents[3] / "docs/src/reference/questions.md"
    assert page.read_text() == asking.reference(), "python -m latebound.ask --reference > docs/src/reference/questions.md"
