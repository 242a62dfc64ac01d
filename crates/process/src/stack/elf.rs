//! ELF files as far as a walk needs them: unwind tables and symbols. They belong to another process and may be damaged or
//! hostile: whatever lies outside the file, or is larger than a bound, is taken to be absent.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Bytes of `.eh_frame` or `.eh_frame_hdr`, at most. PyTorch's largest library has some 40 MiB.
const TABLE: u64 = 256 << 20;
/// Segments and sections, at most: those of code are among the first.
const HEADERS: u16 = 4096;
/// Symbols that are read at a time.
const SYMBOLS: u64 = 4096;
/// Bytes of a name, at most.
const NAME: usize = 1024;

const HEADER_SIZE: usize = 64;
const SEGMENT_SIZE: usize = 56;
const SECTION_SIZE: usize = 64;
const SYMBOL_SIZE: u64 = 24;

const PT_LOAD: u32 = 1;
const PF_X: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
/// A symbol without a size, as assemblers write them, is believed for this many bytes.
const UNSIZED: u64 = 4096;

/// Where the bytes are.
pub(super) enum BytesSource {
    /// In a file.
    File(File),
    /// In memory, as the kernel's own library is.
    Memory(Vec<u8>),
}

impl BytesSource {
    fn read(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        match self {
            // No room for what is not there.
            Self::File(file) if offset.checked_add(length as u64)? > file.metadata().ok()?.len() => None,
            Self::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset).ok()?;
                Some(bytes)
            }
            Self::Memory(bytes) => {
                let from = usize::try_from(offset).ok()?;
                Some(bytes.get(from..from.checked_add(length)?)?.to_vec())
            }
        }
    }

    /// Up to so many bytes: as many as there are.
    fn read_some(&self, offset: u64, most: usize) -> Vec<u8> {
        match self {
            Self::File(file) => {
                let mut bytes = vec![0; most];
                let count = file.read_at(&mut bytes, offset).unwrap_or(0);
                bytes.truncate(count);
                bytes
            }
            Self::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
                rest[..rest.len().min(most)].to_vec()
            }
        }
    }
}

/// A piece of a file, and its address in the program as linked.
#[derive(Clone, Debug, Default)]
pub(super) struct FilePiece {
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
}

/// A section: kind, name, address, place, size, and the section that it refers to.
#[derive(Clone, Copy, Debug)]
struct ElfSection {
    name: u32,
    kind: u32,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
}

/// A segment that holds code.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    address: u64,
    size: u64,
}

/// An ELF file of 64 bits, little-endian.
pub(super) struct Elf {
    source: BytesSource,
    segments: Vec<Segment>,
    sections: Vec<ElfSection>,
    /// Where the names of sections are.
    names: u64,
}

impl Elf {
    /// Reads the headers; None when it is not such a file.
    pub(super) fn read(source: BytesSource) -> Option<Self> {
        let header = source.read(0, HEADER_SIZE)?;
        // Magic, 64 bits, little-endian.
        if header.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let table = |offset: u64, size: usize, count: u16| {
            let bytes = source.read(offset, size * usize::from(count.min(HEADERS))).unwrap_or_default();
            bytes.chunks_exact(size).map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let segments = match half(&header, 54)? {
            56 => table(word(&header, 32)?, SEGMENT_SIZE, half(&header, 56)?),
            _ => return None,
        };
        let sections = match half(&header, 58)? {
            64 => table(word(&header, 40)?, SECTION_SIZE, half(&header, 60)?),
            _ => Vec::new(),
        };
        let segments = segments.iter().filter_map(|bytes| segment(bytes)).collect();
        let sections: Vec<ElfSection> = sections.iter().filter_map(|bytes| section(bytes)).collect();
        let names = sections.get(usize::from(half(&header, 62)?)).map_or(0, |section| section.offset);
        Some(Self { source, segments, sections, names })
    }

    /// By how much the addresses of the file's mapping at `start`, from `offset` of the file on, differ from those that it was
    /// linked for.
    pub(super) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let holds = |segment: &&Segment| {
            let page = segment.offset & !0xffff;
            (page..segment.offset.saturating_add(segment.size)).contains(&offset)
        };
        let segment = self.segments.iter().find(holds)?;
        Some(start.wrapping_sub(offset).wrapping_add(segment.offset).wrapping_sub(segment.address))
    }

    /// The section of this name, if it is in the file and not too large.
    pub(super) fn piece(&self, name: &str) -> Option<FilePiece> {
        let named = |section: &&ElfSection| {
            let at = self.names.saturating_add(section.name.into());
            let text = self.source.read_some(at, name.len() + 1);
            text.strip_suffix(&[0]) == Some(name.as_bytes())
        };
        let section = self.sections.iter().find(named).filter(|section| section.size <= TABLE)?;
        let bytes = self.source.read(section.offset, usize::try_from(section.size).ok()?)?;
        Some(FilePiece { address: section.address, bytes })
    }

    /// The names of the functions at these addresses, which ascend; as linked, and not demangled.
    pub(super) fn functions(&self, addresses: &[u64], deadline: Instant) -> Vec<Option<String>> {
        let mut found: Vec<Option<FoundSymbol>> = vec![None; addresses.len()];
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            if found.iter().all(Option::is_some) {
                break;
            }
            for table in self.sections.iter().filter(|section| section.kind == kind) {
                self.search(table, addresses, &mut found, deadline);
            }
        }
        found.iter().map(|found| found.as_ref().and_then(|found| self.name(found.name))).collect()
    }

    fn search(&self, table: &ElfSection, addresses: &[u64], found: &mut [Option<FoundSymbol>], deadline: Instant) {
        let Some(names) = self.sections.get(table.link as usize).map(|section| section.offset) else { return };
        let (mut at, end) = (table.offset, table.offset.saturating_add(table.size));
        while at < end && Instant::now() < deadline {
            let most = (SYMBOLS * SYMBOL_SIZE).min(end - at);
            let bytes = self.source.read_some(at, most as usize);
            if bytes.len() < SYMBOL_SIZE as usize {
                return;
            }
            for symbol in bytes.chunks_exact(SYMBOL_SIZE as usize).filter_map(symbol) {
                symbol.note(names, addresses, found);
            }
            at += bytes.len() as u64 / SYMBOL_SIZE * SYMBOL_SIZE;
        }
    }

    fn name(&self, at: u64) -> Option<String> {
        let bytes = self.source.read_some(at, NAME);
        let length = bytes.iter().position(|byte| *byte == 0)?;
        (length > 0).then(|| String::from_utf8_lossy(&bytes[..length]).into_owned())
    }
}

/// The best symbol for an address so far.
#[derive(Clone, Copy, Debug)]
struct FoundSymbol {
    address: u64,
    is_sized: bool,
    /// Where its name is.
    name: u64,
}

struct Symbol {
    name: u32,
    address: u64,
    size: u64,
}

impl Symbol {
    /// Takes it for those of the addresses that lie in it, where it is better than what they have: a size is better than
    /// none, and a later begin than an earlier one.
    fn note(&self, names: u64, addresses: &[u64], found: &mut [Option<FoundSymbol>]) {
        let is_sized = self.size > 0;
        let end = self.address.saturating_add(if is_sized { self.size } else { UNSIZED });
        let first = addresses.partition_point(|address| *address < self.address);
        for (address, found) in addresses.iter().zip(found).skip(first) {
            if *address >= end {
                return;
            }
            let quality = (is_sized, self.address);
            if found.is_none_or(|known| quality > (known.is_sized, known.address)) {
                *found =
                    Some(FoundSymbol { address: self.address, is_sized, name: names.saturating_add(self.name.into()) });
            }
        }
    }
}

/// A symbol of the file's own code.
fn symbol(bytes: &[u8]) -> Option<Symbol> {
    let (kind, section) = (bytes.get(4)? & 0xf, half(bytes, 6)?);
    let is_code = matches!(kind, STT_NOTYPE | STT_FUNC | STT_GNU_IFUNC) && section != 0;
    let symbol = Symbol { name: quarter(bytes, 0)?, address: word(bytes, 8)?, size: word(bytes, 16)? };
    (is_code && symbol.name != 0).then_some(symbol)
}

fn segment(bytes: &[u8]) -> Option<Segment> {
    let is_code = quarter(bytes, 0)? == PT_LOAD && quarter(bytes, 4)? & PF_X != 0;
    let segment = Segment { offset: word(bytes, 8)?, address: word(bytes, 16)?, size: word(bytes, 32)? };
    is_code.then_some(segment)
}

fn section(bytes: &[u8]) -> Option<ElfSection> {
    Some(ElfSection {
        name: quarter(bytes, 0)?,
        kind: quarter(bytes, 4)?,
        address: word(bytes, 16)?,
        offset: word(bytes, 24)?,
        size: word(bytes, 32)?,
        link: quarter(bytes, 40)?,
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn quarter(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    /// This program's own file.
    fn own() -> Elf {
        Elf::read(BytesSource::File(File::open("/proc/self/exe").unwrap())).unwrap()
    }

    #[test]
    fn sections_are_found_by_name() {
        let own = own();
        let header = own.piece(".eh_frame_hdr").unwrap();
        assert_eq!(header.bytes[0], 1, "its version");
        assert!(own.piece(".eh_frame").unwrap().bytes.len() > header.bytes.len());
        assert!(own.piece(".eh_fram").is_none() && own.piece(".no").is_none());
    }

    /// A file of one symbol table, its names and their own names.
    fn small() -> Vec<u8> {
        let mut file = vec![0; 0x400];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"\x7fELF\x02\x01");
        put(40, &0x100_u64.to_le_bytes());
        put(54, &[56, 0, 0, 0, 64, 0, 3, 0, 2, 0]);
        for (index, kind, offset, size, link) in [(1, 2, 0x200, 72, 2), (2, 3, 0x300, 32, 0)] {
            let at = 0x100 + index * 64;
            put(at + 4, &[kind]);
            put(at + 24, &u64::to_le_bytes(offset));
            put(at + 32, &u64::to_le_bytes(size));
            put(at + 40, &[link]);
        }
        for (index, name, kind, address, size) in
            [(0, 1, 2, 0x1000, 0x100), (1, 7, 2, 0x1040, 0x10), (2, 13, 0, 0x1200, 0)]
        {
            let at = 0x200 + index * 24;
            put(at, &[name, 0, 0, 0, kind, 0, 1, 0]);
            put(at + 8, &u64::to_le_bytes(address));
            put(at + 16, &u64::to_le_bytes(size));
        }
        put(0x300, b"\0outer\0inner\0start\0");
        file
    }

    fn names(file: Vec<u8>, addresses: &[u64]) -> Vec<Option<String>> {
        Elf::read(BytesSource::Memory(file)).map(|elf| elf.functions(addresses, soon())).unwrap_or_default()
    }

    #[test]
    fn an_address_has_the_innermost_symbol() {
        let found = names(small(), &[0xfff, 0x1000, 0x1045, 0x1050, 0x1100, 0x1210, 0x9000]);
        let found: Vec<&str> = found.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
        assert_eq!(found, ["-", "outer", "inner", "outer", "-", "start", "-"]);
    }

    #[test]
    fn damaged_files_have_no_names_and_break_nothing() {
        let addresses = [0x1000, 0x1045, 0x1210, u64::MAX];
        let whole = small();
        for length in 0..whole.len() {
            let _ = names(whole[..length].to_vec(), &addresses);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut file = whole.clone();
                file[at] = value;
                let elf = Elf::read(BytesSource::Memory(file));
                let Some(elf) = elf else { continue };
                let _ = (elf.functions(&addresses, soon()), elf.piece(".eh_frame"), elf.bias(0x7000, u64::MAX));
            }
        }
        let ends = names(vec![0xff; 4096], &addresses);
        assert!(ends.is_empty());
    }
}
