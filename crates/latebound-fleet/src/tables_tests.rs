// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use super::*;
use proptest::prelude::*;

fn series(number: i64) -> SeriesRow {
    SeriesRow {
        day: 20_000,
        host: "hôst\n".into(),
        level: INTERVAL.into(),
        start_us: number - 3,
        series_id: format!("id{}", number / 3).into(),
        cpu: (number % 2 == 0).then_some(number as i32),
        total: number % 3 == 0,
        count: i64::MAX,
        sum_ns: 10i128.pow(38) - 1 - i128::from(number),
        min_ns: None,
        max_ns: Some(number),
        lost_unknown: number % 5 == 0,
        ..SeriesRow::default()
    }
}

#[test]
fn rows_come_back_from_a_file_as_they_were() {
    // More than are read at once.
    let rows: Vec<SeriesRow> = (0..20_000).map(series).collect();
    let (bytes, count) = to_file(rows.clone()).unwrap();
    let mut found = Vec::new();
    assert_eq!(from_file(bytes.into(), TABLES_VERSION, |row: SeriesRow| found.push(row)), Ok(count));
    assert!(found == rows);
    let settings = [None, Some("x".into()), None].map(|value| SettingRow { value, ..SettingRow::default() });
    let (bytes, _) = to_file(settings.to_vec()).unwrap();
    let mut rows = Rows::default();
    assert_eq!(rows.read(Table::Settings, bytes.into(), TABLES_VERSION), Ok(3));
    assert_eq!(rows.settings, settings);
}

#[test]
fn a_file_of_another_table_or_a_newer_one_is_refused() {
    let (bytes, _) = to_file(vec![BucketRow::default()]).unwrap();
    for table in Table::ALL.iter().filter(|table| **table != Table::Buckets) {
        let error = table.check(bytes.clone().into(), TABLES_VERSION).unwrap_err();
        assert!(error.contains("column"), "{table}: {error}");
    }
    let mut columns = BucketRow::columns();
    columns.push(ColumnBothWays {
        name: "new",
        get: Get::I64(|row: &BucketRow| row.count),
        set: Set::I64(|row: &mut BucketRow, value| row.count = value),
    });
    let (bytes, _) = encode_both_ways(&columns, vec![BucketRow::default()]).unwrap();
    assert_eq!(
        Table::Buckets.check(bytes.into(), TABLES_VERSION),
        Err("it has a column new that is not known".to_owned())
    );
}

#[test]
fn a_file_of_an_earlier_version_lacks_what_came_later() {
    let row = IntervalRow { intervals: 7, command: Some("latebound check".into()), ..IntervalRow::default() };
    let mut columns = IntervalRow::columns();
    columns.retain(|column| Table::Intervals.since(column.name) == FIRST);
    let (bytes, _) = encode_both_ways(&columns, vec![row.clone()]).unwrap();
    let mut found = Vec::new();
    assert_eq!(from_file(bytes.clone().into(), FIRST, |row: IntervalRow| found.push(row)), Ok(1));
    assert_eq!(found, [IntervalRow { command: None, ..row.clone() }]);
    // What a commit says of its file must be true of it, both ways.
    let error = Table::Intervals.check(bytes.into(), 2).unwrap_err();
    assert!(error.contains("was to be command"), "{error}");
    let (bytes, _) = to_file(vec![row]).unwrap();
    let error = Table::Intervals.check(bytes.into(), FIRST).unwrap_err();
    assert!(error.contains("command that is not known"), "{error}");
}

#[test]
fn buckets_of_earlier_versions_are_those_of_today_by_their_edges() {
    let last = bucket_edges().len() as i32 - 1;
    let rows: Vec<BucketRow> = [0, 1, 255, 256, 257, 1_000, last - 1, last]
        .map(|bucket| BucketRow { bucket, count: i64::from(bucket) + 1, ..BucketRow::default() })
        .to_vec();
    for version in FIRST..=TABLES_VERSION {
        let columns = BucketRow::columns_of(version);
        let names: Vec<_> = columns.iter().skip(7).map(|column| column.name).collect();
        let expected: &[_] = if version < NUMBERED_BUCKETS {
            &["bucket_low_ns", "bucket_high_ns", "count"]
        } else {
            &["count", "bucket"]
        };
        assert_eq!(names, expected, "{version}");
        let (bytes, _) = encode_both_ways(&columns, rows.clone()).unwrap();
        let mut found = Vec::new();
        assert_eq!(from_file(bytes.into(), version, |row: BucketRow| found.push(row)), Ok(rows.len() as u64));
        assert_eq!(found, rows, "{version}");
    }
}

#[test]
fn the_edges_of_buckets_leave_no_value_out() {
    let edges = bucket_edges();
    assert_eq!((edges[0], edges[edges.len() - 1].1), ((0, 0), i64::MAX));
    for pair in edges.windows(2) {
        assert_eq!(pair[0].1 + 1, pair[1].0);
    }
    // A hostile file may have any number.
    assert_eq!((edges_ns(-1), edges_ns(i32::MAX)), (edges[edges.len() - 1], edges[edges.len() - 1]));
}

#[test]
fn the_newest_version_is_that_of_a_table_whose_columns_came_at_the_end() {
    assert_eq!(Table::ALL.iter().map(|table| table.version()).max(), Some(TABLES_VERSION));
    for (_, table, column) in CAME {
        assert!(column.is_none_or(|column| table.columns().contains(&column)), "{table}");
    }
    for table in Table::ALL {
        let since: Vec<u32> = table.columns().into_iter().map(|column| table.since(column)).collect();
        assert!(since.is_sorted(), "{table}: {since:?}");
    }
}

#[test]
fn a_number_with_too_many_digits_is_an_error() {
    let row = SeriesRow { sum_ns: 10i128.pow(38), ..series(1) };
    assert!(to_file(vec![row]).unwrap_err().to_string().contains("38 digits"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn damaged_bytes_are_an_error_and_never_a_panic(
        at in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let (mut bytes, _) = to_file((0..50).map(series).collect()).unwrap();
        for (place, value) in at {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = Table::Series.check(bytes.into(), TABLES_VERSION);
    }
}
