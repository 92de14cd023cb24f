// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small typed row writer for Parquet, and the way back: a table is a list of named columns, each with the function that
//! takes its value out of a row, and, where the table is read too, with the function that puts the value into a row.
//!
//! Owns how a value of each kind lies in a file. It never decides which columns a table has.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};

/// Rows are written in groups of this many: what is held in memory beside the rows themselves.
const ROWS_PER_GROUP: usize = 1 << 16;

/// How a column's value is taken out of a row. Unsigned columns carry Parquet's unsigned integer annotation.
pub enum Get<R> {
    /// 64 bits without a sign.
    U64(fn(&R) -> u64),
    /// The same, where a row may have none.
    OptionalU64(fn(&R) -> Option<u64>),
    /// 32 bits without a sign.
    U32(fn(&R) -> u32),
    /// The same, where a row may have none.
    OptionalU32(fn(&R) -> Option<u32>),
    /// 64 bits with a sign and without an annotation: what every engine reads.
    I64(fn(&R) -> i64),
    /// As [`Get::I64`], kept as differences between rows: smaller where values that follow each other are near each other.
    DeltaI64(fn(&R) -> i64),
    /// The same, where a row may have none.
    OptionalI64(fn(&R) -> Option<i64>),
    /// 32 bits with a sign.
    I32(fn(&R) -> i32),
    /// As [`Get::I32`], kept as differences between rows.
    DeltaI32(fn(&R) -> i32),
    /// The same, where a row may have none.
    OptionalI32(fn(&R) -> Option<i32>),
    /// True or false.
    Bool(fn(&R) -> bool),
    /// A whole number of up to 38 decimal digits, `DECIMAL(38, 0)`. A number with more digits is an error.
    Decimal(fn(&R) -> i128),
    /// A day, as days since 1970-01-01.
    Date(fn(&R) -> i32),
    /// Text in UTF-8.
    Text(fn(&R) -> &str),
    /// The same, where a row may have none.
    OptionalText(fn(&R) -> Option<&str>),
}

/// How a value that was read is put into a row. The kinds are those of [`Get`].
pub enum Set<R> {
    /// [`Get::I64`], [`Get::DeltaI64`]
    I64(fn(&mut R, i64)),
    /// [`Get::OptionalI64`]
    OptionalI64(fn(&mut R, Option<i64>)),
    /// [`Get::I32`], [`Get::DeltaI32`]
    I32(fn(&mut R, i32)),
    /// [`Get::OptionalI32`]
    OptionalI32(fn(&mut R, Option<i32>)),
    /// [`Get::Bool`]
    Bool(fn(&mut R, bool)),
    /// [`Get::Decimal`]
    Decimal(fn(&mut R, i128)),
    /// [`Get::Date`]
    Date(fn(&mut R, i32)),
    /// [`Get::Text`]; equal values that follow each other share their memory.
    Text(fn(&mut R, Arc<str>)),
    /// [`Get::OptionalText`]
    OptionalText(fn(&mut R, Option<Arc<str>>)),
}

/// One column that is written.
pub struct Column<R> {
    /// Its name.
    pub name: &'static str,
    /// Its kind and its value.
    pub get: Get<R>,
}

/// One column that is written and read: both must be of the same kind.
pub struct ColumnBothWays<R> {
    /// Its name.
    pub name: &'static str,
    /// Its kind and its value.
    pub get: Get<R>,
    /// Where a value that was read goes.
    pub set: Set<R>,
}

/// The bytes of a Parquet file with these rows, and how many they are.
pub fn encode<R>(
    columns: &[Column<R>],
    rows: impl IntoIterator<Item = R>,
) -> Result<(Vec<u8>, u64), ParquetError> {
    let columns: Vec<_> = columns.iter().map(|column| (column.name, &column.get)).collect();
    encode_columns(&columns, rows)
}

/// As [`encode`], for a table that is read too.
pub fn encode_both_ways<R>(
    columns: &[ColumnBothWays<R>],
    rows: impl IntoIterator<Item = R>,
) -> Result<(Vec<u8>, u64), ParquetError> {
    let columns: Vec<_> = columns.iter().map(|column| (column.name, &column.get)).collect();
    encode_columns(&columns, rows)
}

fn encode_columns<R>(
    columns: &[(&'static str, &Get<R>)],
    rows: impl IntoIterator<Item = R>,
) -> Result<(Vec<u8>, u64), ParquetError> {
    let fields =
        columns.iter().map(|(name, get)| field(get, name).map(Arc::new)).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("row").with_fields(fields).build()?;
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("latebound ", env!("CARGO_PKG_VERSION")).to_owned());
    for (name, get) in columns {
        if matches!(get, Get::DeltaI64(_) | Get::DeltaI32(_)) {
            let name = ColumnPath::from(*name);
            properties = properties
                .set_column_dictionary_enabled(name.clone(), false)
                .set_column_encoding(name, Encoding::DELTA_BINARY_PACKED);
        }
    }
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build()))?;
    let mut rows = rows.into_iter();
    let mut total = 0;
    loop {
        let group: Vec<R> = rows.by_ref().take(ROWS_PER_GROUP).collect();
        if group.is_empty() {
            break;
        }
        total += group.len() as u64;
        let mut group_writer = writer.next_row_group()?;
        for (name, get) in columns {
            let Some(mut column_writer) = group_writer.next_column()? else {
                return Err(ParquetError::General(format!("no place for column {name}")));
            };
            write_column(&mut column_writer, &group, get)?;
            column_writer.close()?;
        }
        group_writer.close()?;
    }
    Ok((writer.into_inner()?, total))
}

fn field<R>(get: &Get<R>, name: &str) -> Result<Type, ParquetError> {
    let unsigned = |bit_width| Some(LogicalType::integer(bit_width, false));
    let (physical, logical, repetition) = match get {
        Get::U64(_) => (Physical::INT64, unsigned(64), Repetition::REQUIRED),
        Get::OptionalU64(_) => (Physical::INT64, unsigned(64), Repetition::OPTIONAL),
        Get::U32(_) => (Physical::INT32, unsigned(32), Repetition::REQUIRED),
        Get::OptionalU32(_) => (Physical::INT32, unsigned(32), Repetition::OPTIONAL),
        Get::I64(_) | Get::DeltaI64(_) => (Physical::INT64, None, Repetition::REQUIRED),
        Get::OptionalI64(_) => (Physical::INT64, None, Repetition::OPTIONAL),
        Get::I32(_) | Get::DeltaI32(_) => (Physical::INT32, None, Repetition::REQUIRED),
        Get::OptionalI32(_) => (Physical::INT32, None, Repetition::OPTIONAL),
        Get::Bool(_) => (Physical::BOOLEAN, None, Repetition::REQUIRED),
        Get::Decimal(_) => {
            return Type::primitive_type_builder(name, Physical::FIXED_LEN_BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::decimal(0, DECIMAL_DIGITS)))
                .with_precision(DECIMAL_DIGITS)
                .with_scale(0)
                .with_length(DECIMAL_BYTES as i32)
                .with_repetition(Repetition::REQUIRED)
                .build();
        }
        Get::Date(_) => (Physical::INT32, Some(LogicalType::Date), Repetition::REQUIRED),
        Get::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        Get::OptionalText(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::OPTIONAL),
    };
    Type::primitive_type_builder(name, physical)
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
        Get::I64(get) | Get::DeltaI64(get) => {
            let values: Vec<i64> = rows.iter().map(get).collect();
            writer.typed::<Int64Type>().write_batch(&values, None, None)?;
        }
        Get::OptionalI64(get) => {
            let (values, defined) = optional(rows, get);
            writer.typed::<Int64Type>().write_batch(&values, Some(&defined), None)?;
        }
        Get::I32(get) | Get::DeltaI32(get) | Get::Date(get) => {
            let values: Vec<i32> = rows.iter().map(get).collect();
            writer.typed::<Int32Type>().write_batch(&values, None, None)?;
        }
        Get::OptionalI32(get) => {
            let (values, defined) = optional(rows, get);
            writer.typed::<Int32Type>().write_batch(&values, Some(&defined), None)?;
        }
        Get::Bool(get) => {
            let values: Vec<bool> = rows.iter().map(get).collect();
            writer.typed::<BoolType>().write_batch(&values, None, None)?;
        }
        Get::Decimal(get) => {
            let values = rows.iter().map(|row| decimal(get(row))).collect::<Result<Vec<_>, _>>()?;
            writer.typed::<FixedLenByteArrayType>().write_batch(&values, None, None)?;
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

/// The digits of a [`Get::Decimal`].
const DECIMAL_DIGITS: i32 = 38;
const DECIMAL_BYTES: usize = size_of::<i128>();

fn decimal(value: i128) -> Result<FixedLenByteArray, ParquetError> {
    if value.unsigned_abs() >= 10u128.pow(DECIMAL_DIGITS.unsigned_abs()) {
        return Err(ParquetError::General(format!("{value} has more than {DECIMAL_DIGITS} digits")));
    }
    Ok(ByteArray::from(value.to_be_bytes().to_vec()).into())
}

/// Gives the rows of a Parquet file to `visit`, in their order. The file must have exactly these columns, in this order.
/// Returns how many rows there were; an error says what does not fit. Every file is taken for one from elsewhere.
pub fn decode<R: Default>(
    bytes: Bytes,
    columns: &[ColumnBothWays<R>],
    mut visit: impl FnMut(R),
) -> Result<u64, String> {
    // The reader of Parquet trusts what it has checked, and panics where that contradicts itself.
    let read = catch_unwind(AssertUnwindSafe(|| rows(bytes, columns, &mut visit)));
    read.unwrap_or_else(|_| Err("its reader met a contradiction; the file is damaged".to_owned()))
}

fn rows<R: Default>(
    bytes: Bytes,
    columns: &[ColumnBothWays<R>],
    visit: &mut impl FnMut(R),
) -> Result<u64, String> {
    let text = |error: ParquetError| error.to_string();
    let length = bytes.len() as u64;
    let reader = SerializedFileReader::new(bytes).map_err(text)?;
    let found = reader.metadata().file_metadata().schema_descr().root_schema().get_fields();
    let name = |at: usize| found.get(at).map_or("none", |field| field.name());
    for (at, column) in columns.iter().enumerate() {
        let expected = field(&column.get, column.name).map_err(text)?;
        if found.get(at).is_none_or(|found| **found != expected) {
            return Err(format!(
                "column {at} is {} and was to be {}, or is of another type",
                name(at),
                column.name
            ));
        }
    }
    if found.len() != columns.len() {
        return Err(format!("it has a column {} that is not known", name(columns.len())));
    }
    check(reader.metadata(), length)?;
    let mut total = 0u64;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(text)?;
        let mut open = (0..columns.len())
            .map(|at| Reading::open(&columns[at].set, &*group, at))
            .collect::<Result<Vec<_>, _>>()?;
        loop {
            let mut batch: Vec<R> = Vec::new();
            for (at, reading) in open.iter_mut().enumerate() {
                let count = reading.read()?;
                if at == 0 {
                    batch.resize_with(count, R::default);
                } else if batch.len() != count {
                    return Err("its columns differ in length".to_owned());
                }
                reading
                    .put(&columns[at].set, &mut batch)
                    .map_err(|why| format!("column {}: {why}", columns[at].name))?;
            }
            if batch.is_empty() {
                break;
            }
            total += batch.len() as u64;
            batch.into_iter().for_each(&mut *visit);
        }
    }
    Ok(total)
}

/// A column of a group of rows that is being read.
enum Reading {
    I64(Values<Int64Type>),
    I32(Values<Int32Type>),
    Bool(Values<BoolType>),
    Decimal(Values<FixedLenByteArrayType>),
    Text(Values<ByteArrayType>),
}

impl Reading {
    fn open<R>(set: &Set<R>, group: &dyn RowGroupReader, at: usize) -> Result<Reading, String> {
        let column = group.get_column_reader(at).map_err(|error| error.to_string())?;
        // The types of the file were compared with those of the columns.
        Ok(match set {
            Set::I64(_) | Set::OptionalI64(_) => Reading::I64(Values::new(get_typed_column_reader(column))),
            Set::I32(_) | Set::OptionalI32(_) | Set::Date(_) => {
                Reading::I32(Values::new(get_typed_column_reader(column)))
            }
            Set::Bool(_) => Reading::Bool(Values::new(get_typed_column_reader(column))),
            Set::Decimal(_) => Reading::Decimal(Values::new(get_typed_column_reader(column))),
            Set::Text(_) | Set::OptionalText(_) => {
                Reading::Text(Values::new(get_typed_column_reader(column)))
            }
        })
    }

    fn read(&mut self) -> Result<usize, String> {
        match self {
            Reading::I64(values) => values.read(),
            Reading::I32(values) => values.read(),
            Reading::Bool(values) => values.read(),
            Reading::Decimal(values) => values.read(),
            Reading::Text(values) => values.read(),
        }
    }

    fn put<R>(&self, set: &Set<R>, rows: &mut [R]) -> Result<(), String> {
        const ABSENT: &str = "a row has no value";
        let absent = || ABSENT.to_owned();
        let mut last: Option<Arc<str>> = None;
        let mut shared = |value: &ByteArray| -> Result<Arc<str>, String> {
            let text = std::str::from_utf8(value.data()).map_err(|error| error.to_string())?;
            match &last {
                Some(last) if **last == *text => Ok(Arc::clone(last)),
                _ => Ok(Arc::clone(last.insert(Arc::from(text)))),
            }
        };
        for (row, at) in rows.iter_mut().zip(0..) {
            match (self, set) {
                (Reading::I64(values), Set::I64(set)) => set(row, *values.value(at).ok_or_else(absent)?),
                (Reading::I64(values), Set::OptionalI64(set)) => set(row, values.value(at).copied()),
                (Reading::I32(values), Set::I32(set) | Set::Date(set)) => {
                    set(row, *values.value(at).ok_or_else(absent)?);
                }
                (Reading::I32(values), Set::OptionalI32(set)) => set(row, values.value(at).copied()),
                (Reading::Bool(values), Set::Bool(set)) => set(row, *values.value(at).ok_or_else(absent)?),
                (Reading::Decimal(values), Set::Decimal(set)) => {
                    let bytes = values.value(at).ok_or_else(absent)?.data();
                    let bytes = bytes.try_into().map_err(|_| "a decimal has another length".to_owned())?;
                    set(row, i128::from_be_bytes(bytes));
                }
                (Reading::Text(values), Set::Text(set)) => {
                    set(row, shared(values.value(at).ok_or_else(absent)?)?);
                }
                (Reading::Text(values), Set::OptionalText(set)) => {
                    set(row, values.value(at).map(&mut shared).transpose()?);
                }
                _ => return Err("it is read as another kind than it is written".to_owned()),
            }
        }
        Ok(())
    }
}

/// Whether all columns lie within the file: the reader takes that for granted.
pub(crate) fn check(metadata: &ParquetMetaData, bytes: u64) -> Result<(), String> {
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        let end = start.checked_add(column.compressed_size());
        let within = start >= 0
            && column.compressed_size() >= 0
            && column.num_values() >= 0
            && end.is_some_and(|end| u64::try_from(end).is_ok_and(|end| end <= bytes));
        if !within {
            return Err("a column lies outside the file".to_owned());
        }
    }
    Ok(())
}

/// So many rows are read at once.
const ROWS: usize = 1 << 14;

/// The values of one column, a part at a time.
pub(crate) struct Values<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
    /// Of each row whether it has a value.
    defined: Vec<i16>,
    /// Of each row which of the values is its own.
    places: Vec<Option<usize>>,
}

impl<T: DataType> Values<T> {
    pub(crate) fn new(reader: ColumnReaderImpl<T>) -> Values<T> {
        Values { reader, values: Vec::new(), defined: Vec::new(), places: Vec::new() }
    }

    /// Reads the next rows. Returns how many.
    pub(crate) fn read(&mut self) -> Result<usize, String> {
        self.values.clear();
        self.defined.clear();
        let (rows, _, _) = self
            .reader
            .read_records(ROWS, Some(&mut self.defined), None, &mut self.values)
            .map_err(|error| error.to_string())?;
        // A column that every row has gives no word of it.
        let all = self.defined.is_empty();
        let mut next = 0..;
        let has = (0..rows).map(|row| all || self.defined.get(row) == Some(&1));
        self.places = has.map(|has| if has { next.next() } else { None }).collect();
        Ok(rows)
    }

    pub(crate) fn value(&self, row: usize) -> Option<&T::T> {
        self.values.get((*self.places.get(row)?)?)
    }
}
