//! The frame of a Parquet file: row groups of one page a column, and the footer that says where they are.
//!
//! <https://github.com/apache/parquet-format> (`parquet.thrift` has the numbers of fields, types and encodings).

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::column::{ColumnType, ParquetCell, page};
use super::thrift::Struct;

const MAGIC: &[u8; 4] = b"PAR1";
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const GZIP: i32 = 2;
const OPTIONAL: i32 = 1;
const UTF8: i32 = 0;

/// A file that is written from front to back.
pub(super) struct File<'w> {
    to: &'w mut dyn Write,
    written: u64,
    columns: Vec<(&'w str, ColumnType)>,
    groups: Vec<RowGroup>,
}

/// What the footer says of a row group.
struct RowGroup {
    rows: usize,
    chunks: Vec<Chunk>,
}

/// Where a column of a group is, and its length with the header of its page.
struct Chunk {
    offset: u64,
    plain: usize,
    packed: usize,
}

impl<'w> File<'w> {
    pub(super) fn begin(to: &'w mut dyn Write, names: &'w [String], kinds: &[ColumnType]) -> io::Result<Self> {
        let columns = names.iter().map(String::as_str).zip(kinds.iter().copied()).collect();
        let mut file = Self { to, written: 0, columns, groups: Vec::new() };
        file.put(MAGIC)?;
        Ok(file)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.to.write_all(bytes)
    }

    /// Rows: the cells of each column, all of one length.
    pub(super) fn group(&mut self, columns: &[Vec<ParquetCell>]) -> io::Result<()> {
        let rows = columns.first().map_or(0, Vec::len);
        let mut chunks = Vec::new();
        for cells in columns {
            let plain = page(cells);
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(&plain)?;
            let packed = packed.finish()?;
            let header = header(cells.len(), plain.len(), packed.len())?;
            let (plain, total) = (header.len() + plain.len(), header.len() + packed.len());
            chunks.push(Chunk { offset: self.written, plain, packed: total });
            self.put(&header)?;
            self.put(&packed)?;
        }
        self.groups.push(RowGroup { rows, chunks });
        Ok(())
    }

    /// The footer.
    pub(super) fn end(mut self) -> io::Result<()> {
        let footer = self.footer().end();
        self.put(&footer)?;
        let length = u32::try_from(footer.len()).map_err(|_| too_large())?;
        self.put(&length.to_le_bytes())?;
        self.put(MAGIC)
    }

    fn footer(&self) -> Struct {
        let root = Struct::default().text(4, "cases").i32(5, self.columns.len() as i32);
        let leaf = |(name, kind): &(&str, ColumnType)| {
            let leaf = Struct::default().i32(1, kind.physical()).i32(3, OPTIONAL).text(4, name);
            match kind {
                // The older way to say it, and the newer one: `STRING {}`.
                ColumnType::Text => leaf.i32(6, UTF8).within(10, Struct::default().within(1, Struct::default())),
                _ => leaf,
            }
        };
        let schema: Vec<Struct> = std::iter::once(root).chain(self.columns.iter().map(leaf)).collect();
        let rows: usize = self.groups.iter().map(|group| group.rows).sum();
        Struct::default()
            .i32(1, 1)
            .structs(2, schema.into_iter())
            .i64(3, rows as i64)
            .structs(4, self.groups.iter().map(|group| self.described(group)))
            .text(6, concat!("rankmark version ", env!("CARGO_PKG_VERSION")))
    }

    fn described(&self, group: &RowGroup) -> Struct {
        let chunk = |(chunk, (name, kind)): (&Chunk, &(&str, ColumnType))| {
            let about = Struct::default()
                .i32(1, kind.physical())
                .numbers(2, &[PLAIN, RLE])
                .texts(3, &[name])
                .i32(4, GZIP)
                .i64(5, group.rows as i64)
                .i64(6, chunk.plain as i64)
                .i64(7, chunk.packed as i64)
                .i64(9, chunk.offset as i64);
            Struct::default().i64(2, chunk.offset as i64).within(3, about)
        };
        let plain: usize = group.chunks.iter().map(|chunk| chunk.plain).sum();
        let chunks: Vec<Struct> = group.chunks.iter().zip(&self.columns).map(chunk).collect();
        Struct::default().structs(1, chunks.into_iter()).i64(2, plain as i64).i64(3, group.rows as i64)
    }
}

/// The header of a page of values.
fn header(values: usize, plain: usize, packed: usize) -> io::Result<Vec<u8>> {
    let number = |length: usize| i32::try_from(length).map_err(|_| too_large());
    let data = Struct::default().i32(1, number(values)?).i32(2, PLAIN).i32(3, RLE).i32(4, RLE);
    Ok(Struct::default().i32(1, 0).i32(2, number(plain)?).i32(3, number(packed)?).within(5, data).end())
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "a part of the table is larger than Parquet supports (2 GiB)")
}
