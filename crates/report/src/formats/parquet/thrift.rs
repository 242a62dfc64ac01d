//! Thrift's compact protocol, as far as Parquet's metadata needs it: writing only.
//!
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// The wire type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    I32 = 5,
    I64 = 6,
    Binary = 8,
    List = 9,
    Struct = 12,
}

/// One struct that is written. Its fields come in ascending order of their ids.
#[derive(Debug, Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

impl Struct {
    fn field(&mut self, id: u8, of: Type) {
        // Parquet's ids lie close together, so the distance always fits its four bits.
        debug_assert!(id > self.last && id - self.last < 16);
        self.bytes.push((id - self.last) << 4 | of as u8);
        self.last = id;
    }

    pub(super) fn i32(mut self, id: u8, value: i32) -> Self {
        self.field(id, Type::I32);
        zigzag(&mut self.bytes, value.into());
        self
    }

    pub(super) fn i64(mut self, id: u8, value: i64) -> Self {
        self.field(id, Type::I64);
        zigzag(&mut self.bytes, value);
        self
    }

    pub(super) fn text(mut self, id: u8, value: &str) -> Self {
        self.field(id, Type::Binary);
        text(&mut self.bytes, value);
        self
    }

    pub(super) fn within(mut self, id: u8, value: Self) -> Self {
        self.field(id, Type::Struct);
        self.bytes.extend(value.end());
        self
    }

    pub(super) fn structs(mut self, id: u8, values: impl ExactSizeIterator<Item = Self>) -> Self {
        self.list(id, Type::Struct, values.len());
        values.for_each(|value| self.bytes.extend(value.end()));
        self
    }

    pub(super) fn texts(mut self, id: u8, values: &[&str]) -> Self {
        self.list(id, Type::Binary, values.len());
        values.iter().for_each(|value| text(&mut self.bytes, value));
        self
    }

    pub(super) fn numbers(mut self, id: u8, values: &[i32]) -> Self {
        self.list(id, Type::I32, values.len());
        values.iter().for_each(|value| zigzag(&mut self.bytes, (*value).into()));
        self
    }

    fn list(&mut self, id: u8, of: Type, length: usize) {
        self.field(id, Type::List);
        match length {
            short @ 0..15 => self.bytes.push((short as u8) << 4 | of as u8),
            long => {
                self.bytes.push(0xf0 | of as u8);
                unsigned(&mut self.bytes, long as u64);
            }
        }
    }

    /// Bytes of the structure with the stop mark.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

/// A varint: seven bits a byte, the lowest first.
pub(super) fn unsigned(to: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Zigzag: small negative numbers stay short, too.
fn zigzag(to: &mut Vec<u8>, value: i64) {
    unsigned(to, ((value << 1) ^ (value >> 63)) as u64);
}

fn text(to: &mut Vec<u8>, value: &str) {
    unsigned(to, value.len() as u64);
    to.extend(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_bytes_of_the_specification() {
        let inner = Struct::default().i32(1, -1);
        let bytes = Struct::default().i32(1, 150).i64(4, 1).text(5, "ab").within(10, inner).end();
        assert_eq!(bytes, [0x15, 0xac, 0x02, 0x36, 0x02, 0x18, 0x02, b'a', b'b', 0x5c, 0x15, 0x01, 0, 0]);
        let long = Struct::default().numbers(1, &[0; 20]).end();
        assert_eq!(long[..3], [0x19, 0xf5, 20]);
        assert_eq!(Struct::default().texts(2, &["x"]).end(), [0x29, 0x18, 1, b'x', 0]);
    }
}
