// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small typed row writer for Parquet: a table is a list of named columns, each with the function that takes its
//! value out of a row.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

/// Rows are written in groups of this many: what is held in memory beside the rows themselves.
const ROWS_PER_GROUP: usize = 1 << 16;

/// How a column's value is taken out of a row. Unsigned columns carry Parquet's unsigned integer annotation.
pub(crate) enum Get<R> {
    U64(fn(&R) -> u64),
    OptionalU64(fn(&R) -> Option<u64>),
    U32(fn(&R) -> u32),
    OptionalU32(fn(&R) -> Option<u32>),
    OptionalI32(fn(&R) -> Option<i32>),
    Text(fn(&R) -> &str),
    OptionalText(fn(&R) -> Option<&str>),
}

/// One column.
pub(crate) struct Column<R> {
    pub(crate) name: &'static str,
    pub(crate) get: Get<R>,
}

/// The bytes of a Parquet file with these rows, and how many they are.
pub(crate) fn encode<R>(
    columns: &[Column<R>],
    rows: impl IntoIterator<Item = R>,
) -> Result<(Vec<u8>, u64), ParquetError> {
    let fields = columns.iter().map(|c| field(c).map(Arc::new)).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("row").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("latebound ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut rows = rows.into_iter();
    let mut total = 0;
    loop {
        let group: Vec<R> = rows.by_ref().take(ROWS_PER_GROUP).collect();
        if group.is_empty() {
            break;
        }
        total += group.len() as u64;
        let mut group_writer = writer.next_row_group()?;
        for column in columns {
            let Some(mut column_writer) = group_writer.next_column()? else {
                return Err(ParquetError::General(format!("no place for column {}", column.name)));
            };
            write_column(&mut column_writer, &group, &column.get)?;
            column_writer.close()?;
        }
        group_writer.close()?;
    }
    Ok((writer.into_inner()?, total))
}

fn field<R>(column: &Column<R>) -> Result<Type, ParquetError> {
    let unsigned = |bit_width| Some(LogicalType::integer(bit_width, false));
    let (physical, logical, repetition) = match column.get {
        Get::U64(_) => (Physical::INT64, unsigned(64), Repetition::REQUIRED),
        Get::OptionalU64(_) => (Physical::INT64, unsigned(64), Repetition::OPTIONAL),
        Get::U32(_) => (Physical::INT32, unsigned(32), Repetition::REQUIRED),
        Get::OptionalU32(_) => (Physical::INT32, unsigned(32), Repetition::OPTIONAL),
        Get::OptionalI32(_) => (Physical::INT32, None, Repetition::OPTIONAL),
        Get::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        Get::OptionalText(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::OPTIONAL),
    };
    Type::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

fn write_column<R>(
    writer: &mut SerializedColumnWriter<'_>,
    rows: &[R],
    get: &Get<R>,
) -> Result<(), ParquetError> {
    let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
    // Unsigned values are stored as the signed integer of the same bits; the annotation says so to readers.
    match get {
        Get::U64(get) => {
            let values: Vec<i64> = rows.iter().map(|row| get(row) as i64).collect();
            writer.typed::<Int64Type>().write_batch(&values, None, None)?;
        }
        Get::OptionalU64(get) => {
            let (values, defined) = optional(rows, |row| get(row).map(|value| value as i64));
            writer.typed::<Int64Type>().write_batch(&values, Some(&defined), None)?;
        }
        Get::U32(get) => {
            let values: Vec<i32> = rows.iter().map(|row| get(row) as i32).collect();
            writer.typed::<Int32Type>().write_batch(&values, None, None)?;
        }
        Get::OptionalU32(get) => {
            let (values, defined) = optional(rows, |row| get(row).map(|value| value as i32));
            writer.typed::<Int32Type>().write_batch(&values, Some(&defined), None)?;
        }
        Get::OptionalI32(get) => {
            let (values, defined) = optional(rows, get);
            writer.typed::<Int32Type>().write_batch(&values, Some(&defined), None)?;
        }
        Get::Text(get) => {
            let values: Vec<ByteArray> = rows.iter().map(|row| text(get(row))).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
        Get::OptionalText(get) => {
            let (values, defined) = optional(rows, |row| get(row).map(text));
            writer.typed::<ByteArrayType>().write_batch(&values, Some(&defined), None)?;
        }
    }
    Ok(())
}

/// The values that are there, and for each row whether it has one.
fn optional<R, T>(rows: &[R], get: impl Fn(&R) -> Option<T>) -> (Vec<T>, Vec<i16>) {
    let values: Vec<Option<T>> = rows.iter().map(get).collect();
    let defined = values.iter().map(|value| i16::from(value.is_some())).collect();
    (values.into_iter().flatten().collect(), defined)
}
