//! What a column holds: its type, from the values of all cases, and its values as the bytes of a page.

use serde_json::{Number, Value};
use terms::outside;

use super::thrift::unsigned;
use crate::formats::rows;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
    pub(super) fn kind(&self) -> Kind {
        let number = self.whole || self.large || self.fraction;
        match self {
            _ if self.other || (self.switch && number) || (self.large && self.fraction) => Kind::Text,
            _ if self.switch => Kind::Bool,
            _ if self.fraction => Kind::Double,
            _ if number => Kind::Int,
            // Nothing but nulls.
            _ => Kind::Text,
        }
    }
}

/// One cell, in the type of its column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
}

impl Kind {
    /// A value as a cell of such a column.
    pub(super) fn cell(self, value: &Value) -> Cell {
        let of = match self {
            _ if value.is_null() => None,
            Self::Bool => value.as_bool().map(Cell::Bool),
            Self::Int => value.as_i64().map(Cell::Int),
            Self::Double => value.as_f64().map(Cell::Double),
            Self::Text => Some(Cell::Text(outside::original(&rows::text(value)).into_owned())),
        };
        of.unwrap_or(Cell::Null)
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
pub(super) fn page(cells: &[Cell]) -> Vec<u8> {
    let levels = levels(cells);
    let mut bytes = (levels.len() as u32).to_le_bytes().to_vec();
    bytes.extend(levels);
    let (mut switches, mut filled) = (0_u8, 0);
    for cell in cells {
        match cell {
            Cell::Null => {}
            // Eight a byte, the lowest bit first.
            Cell::Bool(on) => {
                switches |= u8::from(*on) << filled;
                filled += 1;
                if filled == 8 {
                    bytes.push(std::mem::take(&mut switches));
                    filled = 0;
                }
            }
            Cell::Int(value) => bytes.extend(value.to_le_bytes()),
            Cell::Double(value) => bytes.extend(value.to_le_bytes()),
            Cell::Text(text) => {
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
fn levels(cells: &[Cell]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in cells.chunk_by(|a, b| (*a == Cell::Null) == (*b == Cell::Null)) {
        unsigned(&mut bytes, (run.len() as u64) << 1);
        bytes.push(u8::from(run[0] != Cell::Null));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(values: &[Value]) -> Kind {
        let mut seen = ValueKinds::default();
        values.iter().for_each(|value| seen.note(value));
        seen.kind()
    }

    #[test]
    fn a_column_has_the_narrowest_type_that_holds_all() {
        assert_eq!(kind(&[json!(1), json!(null), json!(-7)]), Kind::Int);
        assert_eq!(kind(&[json!(1), json!(1.5)]), Kind::Double);
        assert_eq!(kind(&[json!(9_007_199_254_740_993_i64)]), Kind::Int);
        assert_eq!(kind(&[json!(9_007_199_254_740_993_i64), json!(0.5)]), Kind::Text);
        assert_eq!(kind(&[json!(u64::MAX)]), Kind::Text);
        assert_eq!(kind(&[json!(true), json!(false)]), Kind::Bool);
        assert_eq!(kind(&[json!(true), json!(1)]), Kind::Text);
        assert_eq!(kind(&[json!("x"), json!(1)]), Kind::Text);
        assert_eq!(kind(&[json!(null)]), Kind::Text);
        assert_eq!(Kind::Text.cell(&json!([1, "a"])), Cell::Text("1 a".to_owned()));
        assert_eq!(Kind::Double.cell(&json!(3)), Cell::Double(3.0));
    }

    #[test]
    fn pages_hold_levels_and_plain_values() {
        let cells = [Cell::Int(1), Cell::Null, Cell::Null, Cell::Int(-1)];
        let mut expected = vec![6, 0, 0, 0, 2, 1, 4, 0, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0];
        expected.extend([0xff; 8]);
        assert_eq!(page(&cells), expected);
        let nine: Vec<Cell> = (0..9).map(|at| Cell::Bool(at % 2 == 0)).collect();
        assert_eq!(page(&nine), [2, 0, 0, 0, 18, 1, 0b0101_0101, 1]);
        assert_eq!(page(&[Cell::Text("é".into())]), [2, 0, 0, 0, 2, 1, 2, 0, 0, 0, 0xc3, 0xa9]);
    }
}
