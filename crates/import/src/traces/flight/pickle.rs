//! A reader of pickles of protocol 2 that builds plain values only. An opcode that could name or call code is refused.

use std::collections::HashMap;

use terms::{Error, outside};

use super::tree::{DumpTree, Value};

/// Reads a pickle.
pub(super) fn read(bytes: &[u8]) -> Result<DumpTree, Error> {
    let mut machine =
        Machine { bytes, at: 0, tree: DumpTree::default(), stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
    loop {
        let at = machine.at;
        let opcode = machine.take(1)?[0];
        if opcode == b'.' {
            machine.tree.root = machine.pop()?;
            return Ok(machine.tree);
        }
        machine
            .step(opcode)
            .map_err(|error| Error { cause: error.cause.or(Some(format!("at byte {at}"))), ..error })?;
    }
}

struct Machine<'b> {
    bytes: &'b [u8],
    at: usize,
    tree: DumpTree,
    stack: Vec<u32>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u32, u32>,
}

impl<'b> Machine<'b> {
    fn step(&mut self, opcode: u8) -> Result<(), Error> {
        match opcode {
            0x80 => match self.take(1)?[0] {
                2 => Ok(()),
                other => Err(Error::new(format!("pickle protocol {other} is not known")).hint("valid values: 2")),
            },
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'N' => self.push(Value::Null),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'K' | b'M' | b'J' | 0x8a | b'G' => self.push_number(opcode),
            b'X' => {
                let length = self.little(4)?;
                let text = String::from_utf8_lossy(self.take(length as usize)?);
                self.push(Value::Text(outside::text(&text).into()))
            }
            b'}' => self.push(Value::Object(Vec::new())),
            b']' => self.push(Value::List(Vec::new())),
            b')' => self.push(Value::List(Vec::new())),
            0x85..=0x87 => {
                let items = self.top(usize::from(opcode - 0x84))?;
                self.push(Value::List(items))
            }
            b't' => {
                let items = self.marked()?;
                self.push(Value::List(items))
            }
            b'a' => {
                let items = self.top(1)?;
                self.append(items)
            }
            b'e' => {
                let items = self.marked()?;
                self.append(items)
            }
            b's' => {
                let items = self.top(2)?;
                self.set(&items)
            }
            b'u' => {
                let items = self.marked()?;
                self.set(&items)
            }
            b'q' | b'r' | b'h' | b'j' => self.memo(opcode),
            other => Err(refused(other)),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest.get(..length).ok_or_else(|| Error::new("the pickle ends too early"))?;
        self.at += length;
        Ok(taken)
    }

    fn little(&mut self, length: usize) -> Result<u64, Error> {
        let bytes = self.take(length)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn push_number(&mut self, opcode: u8) -> Result<(), Error> {
        let value = match opcode {
            b'K' => Value::Whole(self.little(1)? as i64),
            b'M' => Value::Whole(self.little(2)? as i64),
            b'J' => Value::Whole(i64::from(self.little(4)? as u32 as i32)),
            b'G' => {
                let bytes = self.take(8)?;
                Value::Real(f64::from_bits(bytes.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))))
            }
            _ => {
                let length = self.little(1)? as usize;
                if length > 8 {
                    return Err(Error::new(format!("a number has {length} bytes")).hint("at most 8 can be read"));
                }
                let unsigned = self.little(length)?;
                let unused = 64 - 8 * length as u32;
                // Two's complement of as many bytes.
                Value::Whole(if length == 0 { 0 } else { ((unsigned << unused) as i64) >> unused })
            }
        };
        self.push(value)
    }

    fn memo(&mut self, opcode: u8) -> Result<(), Error> {
        let key = self.little(if matches!(opcode, b'q' | b'h') { 1 } else { 4 })? as u32;
        if matches!(opcode, b'q' | b'r') {
            let top = *self.stack.last().ok_or_else(empty)?;
            self.memo.insert(key, top);
        } else {
            let place =
                self.memo.get(&key).ok_or_else(|| Error::new(format!("memo {key} is read before it is written")))?;
            self.stack.push(*place);
        }
        Ok(())
    }

    fn push(&mut self, value: Value) -> Result<(), Error> {
        let place = self.tree.keep(value)?;
        self.stack.push(place);
        Ok(())
    }

    fn pop(&mut self) -> Result<u32, Error> {
        self.stack.pop().ok_or_else(empty)
    }

    /// Takes the uppermost values.
    fn top(&mut self, count: usize) -> Result<Vec<u32>, Error> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let from = self.stack.len().checked_sub(count).filter(|from| *from >= floor).ok_or_else(empty)?;
        Ok(self.stack.split_off(from))
    }

    /// Takes the values above the last mark.
    fn marked(&mut self) -> Result<Vec<u32>, Error> {
        let from = self.marks.pop().filter(|from| *from <= self.stack.len());
        Ok(self.stack.split_off(from.ok_or_else(|| Error::new("the pickle has no mark here"))?))
    }

    fn append(&mut self, mut items: Vec<u32>) -> Result<(), Error> {
        match self.target()? {
            Value::List(list) => {
                list.append(&mut items);
                Ok(())
            }
            _ => Err(Error::new("the pickle appends to what is not a list")),
        }
    }

    fn set(&mut self, items: &[u32]) -> Result<(), Error> {
        match self.target()? {
            Value::Object(pairs) if items.len().is_multiple_of(2) => {
                pairs.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
                Ok(())
            }
            _ => Err(Error::new("the pickle sets items of what is not a dictionary")),
        }
    }

    fn target(&mut self) -> Result<&mut Value, Error> {
        let top = *self.stack.last().ok_or_else(empty)?;
        self.tree.value_mut(top).ok_or_else(empty)
    }
}

fn empty() -> Error {
    Error::new("the pickle takes a value that is not there")
}

fn refused(opcode: u8) -> Error {
    let name = match opcode {
        b'c' => "GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'o' => "OBJ",
        b'i' => "INST",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x81 => "NEWOBJ",
        0x82..=0x84 => "EXT",
        0x92 => "NEWOBJ_EX",
        0x93 => "STACK_GLOBAL",
        _ => "unknown here",
    };
    Error::new(format!(
        "the pickle has the opcode {opcode:#04x} ({name}), which a dump of the Flight Recorder does not have"
    ))
    .hint("a dump holds numbers, texts, lists and dictionaries only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_values_are_read() {
        let pickle = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01K\x07X\x01\x00\x00\x00b](M\x00\x01J\xff\xff\xff\xff\x8a\x02\x00\x80\x8a\x00\
                       G\x3f\xf8\x00\x00\x00\x00\x00\x00eX\x01\x00\x00\x00ch\x01X\x01\x00\x00\x00dK\x01K\x02\x86u.";
        let tree = read(pickle).unwrap();
        let top = tree.top();
        assert_eq!((top.get("a").unwrap().whole(), top.get("c").unwrap().text()), (Some(7), Some("a")));
        let numbers: Vec<f64> = top.get("b").unwrap().items().filter_map(|item| item.real()).collect();
        assert_eq!(numbers, [256.0, -1.0, -32768.0, 0.0, 1.5]);
        assert_eq!(top.get("d").unwrap().items().len(), 2);
    }

    #[test]
    fn code_is_refused_by_the_name_of_its_opcode() {
        let error = read(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00lsR.").unwrap_err().to_string();
        assert!(error.contains("0x63 (GLOBAL)"), "{error}");
        let error = read(b"\x80\x04N.").unwrap_err().to_string();
        assert!(error.starts_with("pickle protocol 4 is not known"), "{error}");
    }

    #[test]
    fn damage_is_an_error() {
        let damaged: &[&[u8]] = &[
            b"",
            b"\x80\x02",
            b"\x80\x02X\xff\xff\xff\xffa",
            b".",
            b"u.",
            b"e.",
            b"(]u.",
            b"h\x01.",
            b"N(\x85.",
            b"q\x01.",
        ];
        for bytes in damaged {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_list_may_hold_itself() {
        let tree = read(b"\x80\x02]q\x00h\x00a.").unwrap();
        assert_eq!(tree.top().items().next().unwrap().items().len(), 1);
    }
}
