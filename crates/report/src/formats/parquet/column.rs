//! What a column holds: its type, from the values of all cases, and its values as the bytes of a page.

use serde_json::{Number, Value};
use terms::outside;

use super::thrift::unsigned;
use crate::formats::rows;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    Bool,
    Int,
    Double,
    Text,
}

/// Up to here every whole number is a DOUBLE, too.
const EXACT: u64 = 1 << 53;

/// The kinds of values in a column.
#[derive(Debug, Default)]
pub(super) struct ValueKinds {
    switch: bool,
    whole: bool,
    /// A whole number that no DOUBLE holds exactly.
    large: bool,
    fraction: bool,
    other: bool,
}

impl ValueKinds {
    pub(super) fn note(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Bool(_) => self.switch = true,
            Value::Number(number) => self.note_number(number),
            _ => self.other = true,
        }
    }

    fn note_number(&mut self, number: &Number) {
        match number.as_i64() {
            Some(whole) if whole.unsigned_abs() > EXACT => self.large = true,
            Some(_) => self.whole = true,
            None if number.is_f64() => self.fraction = true,
            // Beyond INT64: its digits as text.
            None => self.other = true,
        }
    }

    /// The narrowest type that holds every value exactly.
    pub(super) fn kind(&self) -> ColumnType {
        let number = self.whole || self.large || self.fraction;
        match self {
            _ if self.other || (self.switch && number) || (self.large && self.fraction) => ColumnType::Text,
            _ if self.switch => ColumnType::Bool,
            _ if self.fraction => ColumnType::Double,
            _ if number => ColumnType::Int,
            // Nothing but nulls.
            _ => ColumnType::Text,
        }
    }
}

/// One cell, in the type of its column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ParquetCell {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
}

impl ColumnType {
    /// A value as a cell of such a column.
    pub(super) fn cell(self, value: &Value) -> ParquetCell {
        let of = match self {
            _ if value.is_null() => None,
            Self::Bool => value.as_bool().map(ParquetCell::Bool),
            Self::Int => value.as_i64().map(ParquetCell::Int),
            Self::Double => value.as_f64().map(ParquetCell::Double),
            Self::Text => Some(ParquetCell::Text(outside::original(&rows::text(value)).into_owned())),
        };
        of.unwrap_or(ParquetCell::Null)
    }

    /// The number of Parquet's physical type.
    pub(super) fn physical(self) -> i32 {
        match self {
            Self::Bool => 0,
            Self::Int => 2,
            Self::Double => 5,
            Self::Text => 6,
        }
    }
}

/// The content of a page: definition levels (0: null, 1: a value), then the values that are none, in encoding PLAIN.
pub(super) fn page(cells: &[ParquetCell]) -> Vec<u8> {
    let levels = levels(cells);
    let mut bytes = (levels.len() as u32).to_le_bytes().to_vec();
    bytes.extend(levels);
    let (mut switches, mut filled) = (0_u8, 0);
    for cell in cells {
        match cell {
            ParquetCell::Null => {}
            // Eight a byte, the lowest bit first.
            ParquetCell::Bool(on) => {
                switches |= u8::from(*on) << filled;
                filled += 1;
                if filled == 8 {
                    bytes.push(std::mem::take(&mut switches));
                    filled = 0;
                }
            }
            ParquetCell::Int(value) => bytes.extend(value.to_le_bytes()),
            ParquetCell::Double(value) => bytes.extend(value.to_le_bytes()),
            ParquetCell::Text(text) => {
                bytes.extend((text.len() as u32).to_le_bytes());
                bytes.extend(text.as_bytes());
            }
        }
    }
    if filled > 0 {
        bytes.push(switches);
    }
    bytes
}

/// Runs of equal levels: twice the length as a varint, then the level.
fn levels(cells: &[ParquetCell]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in cells.chunk_by(|a, b| (*a == ParquetCell::Null) == (*b == ParquetCell::Null)) {
        unsigned(&mut bytes, (run.len() as u64) << 1);
        bytes.push(u8::from(run[0] != ParquetCell::Null));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(values: &[Value]) -> ColumnType {
        let mut seen = ValueKinds::default();
        values.iter().for_each(|value| seen.note(value));
        seen.kind()
    }

    #[test]
    fn a_column_has_the_narrowest_type_that_holds_all() {
        assert_eq!(kind(&[json!(1), json!(null), json!(-7)]), ColumnType::Int);
        assert_eq!(kind(&[json!(1), json!(1.5)]), ColumnType::Double);
        assert_eq!(kind(&[json!(9_007_199_254_740_993_i64)]), ColumnType::Int);
        assert_eq!(kind(&[json!(9_007_199_254_740_993_i64), json!(0.5)]), ColumnType::Text);
        assert_eq!(kind(&[json!(u64::MAX)]), ColumnType::Text);
        assert_eq!(kind(&[json!(true), json!(false)]), ColumnType::Bool);
        assert_eq!(kind(&[json!(true), json!(1)]), ColumnType::Text);
        assert_eq!(kind(&[json!("x"), json!(1)]), ColumnType::Text);
        assert_eq!(kind(&[json!(null)]), ColumnType::Text);
        assert_eq!(ColumnType::Text.cell(&json!([1, "a"])), ParquetCell::Text("1 a".to_owned()));
        assert_eq!(ColumnType::Double.cell(&json!(3)), ParquetCell::Double(3.0));
    }

    #[test]
    fn pages_hold_levels_and_plain_values() {
        let cells = [ParquetCell::Int(1), ParquetCell::Null, ParquetCell::Null, ParquetCell::Int(-1)];
        let mut expected = vec![6, 0, 0, 0, 2, 1, 4, 0, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0];
        expected.extend([0xff; 8]);
        assert_eq!(page(&cells), expected);
        let nine: Vec<ParquetCell> = (0..9).map(|at| ParquetCell::Bool(at % 2 == 0)).collect();
        assert_eq!(page(&nine), [2, 0, 0, 0, 18, 1, 0b0101_0101, 1]);
        assert_eq!(page(&[ParquetCell::Text("é".into())]), [2, 0, 0, 0, 2, 1, 2, 0, 0, 0, 0xc3, 0xa9]);
    }
}
