//! The files that a process runs code of, by where they are in its memory. Each is read when a frame lies in it.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Instant;

use framehop::{ExplicitModuleSectionInfo, Module};
use rustix::fs::{Mode, OFlags, open};

use super::elf::{BytesSource, Elf};
use super::unwind::Bytes;
use super::{Frame, memory};

/// Bytes of /proc/PID/maps, at most.
const MAPS: u64 = 8 << 20;
/// Bytes of the kernel's own library, at most.
const KERNEL: u64 = 64 << 10;

/// Characters of a C++ function's mangled name that is made readable.
const LONGEST: usize = 4096;

/// One mapping of code.
struct Mapping {
    range: Range<u64>,
    offset: u64,
    inode: u64,
    path: String,
    /// Whether the unwinder has its tables, or knows that there are none.
    is_given: bool,
}

/// The file of a mapping.
struct Loaded {
    elf: Elf,
    /// Tables of it, once they were asked for.
    tables: Option<Tables>,
}

#[derive(Clone)]
struct Tables {
    /// Tables of frames, each with its address as linked.
    frames: Option<(u64, Bytes)>,
    header: Option<(u64, Bytes)>,
}

/// The mappings of code of one process.
pub(super) struct Modules {
    pid: u32,
    /// Ascending.
    mappings: Vec<Mapping>,
    /// By path and inode; None: it cannot be read.
    files: HashMap<(String, u64), Option<Loaded>>,
}

impl Modules {
    /// Reads which files are mapped; none where that is not permitted.
    pub(super) fn read(pid: u32) -> Self {
        let mut text = Vec::new();
        let maps = File::open(format!("/proc/{pid}/maps"));
        let _ = maps.map(|maps| maps.take(MAPS).read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let mut mappings: Vec<Mapping> = text.lines().filter_map(mapping).collect();
        mappings.sort_by_key(|mapping| mapping.range.start);
        Self { pid, mappings, files: HashMap::new() }
    }

    /// Whether it runs an interpreter of Python.
    pub(super) fn is_python(&self) -> bool {
        let is_one = |mapping: &Mapping| {
            let name = base(&mapping.path);
            name.starts_with("libpython") || name.starts_with("python")
        };
        self.mappings.iter().any(is_one)
    }

    fn at(&self, address: u64) -> Option<usize> {
        let after = self.mappings.partition_point(|mapping| mapping.range.start <= address);
        let index = after.checked_sub(1)?;
        self.mappings[index].range.contains(&address).then_some(index)
    }

    /// What the unwinder has to know about the code at this address, the first time that an address of it is asked for.
    pub(super) fn unwind_tables(&mut self, address: u64) -> Option<Module<Bytes>> {
        let index = self.at(address).filter(|index| !self.mappings[*index].is_given)?;
        self.mappings[index].is_given = true;
        let Mapping { range, offset, path, .. } = &self.mappings[index];
        let (range, offset, name) = (range.clone(), *offset, path.clone());
        let loaded = self.file(index)?;
        let bias = loaded.elf.bias(range.start, offset)?;
        let Tables { frames, header } = loaded.tables().clone();
        let (frames_at, frames) = frames?;
        let about = ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: Some(frames_at..frames_at + frames.len() as u64),
            eh_frame: Some(frames),
            eh_frame_hdr_svma: header.as_ref().map(|(at, bytes)| *at..*at + bytes.len() as u64),
            eh_frame_hdr: header.map(|(_, bytes)| bytes),
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(name, range, bias, about))
    }

    /// Names the functions and files of frames.
    pub(super) fn name<'a>(&mut self, frames: impl Iterator<Item = &'a mut Frame>, deadline: Instant) {
        let mut of_mapping: HashMap<usize, Vec<&mut Frame>> = HashMap::new();
        for frame in frames {
            if let Some(index) = self.at(frame.address) {
                of_mapping.entry(index).or_default().push(frame);
            }
        }
        for (index, mut frames) in of_mapping {
            let Mapping { range, offset, path, .. } = &self.mappings[index];
            let (start, offset, module) = (range.start, *offset, base(path).to_owned());
            frames.sort_by_key(|frame| frame.address);
            frames.iter_mut().for_each(|frame| frame.module = Some(module.clone()).filter(|name| !name.is_empty()));
            let Some(loaded) = self.file(index) else { continue };
            let Some(bias) = loaded.elf.bias(start, offset) else { continue };
            let linked: Vec<u64> = frames.iter().map(|frame| frame.address.wrapping_sub(bias)).collect();
            for (frame, name) in frames.iter_mut().zip(loaded.elf.functions(&linked, deadline)) {
                frame.function = name.map(|name| demangled(&name));
            }
        }
    }

    /// The file of a mapping, read once.
    fn file(&mut self, index: usize) -> Option<&mut Loaded> {
        let (pid, mapping) = (self.pid, &self.mappings[index]);
        let key = (mapping.path.clone(), mapping.inode);
        let load = || Some(Loaded { elf: Elf::read(source(pid, mapping)?)?, tables: None });
        self.files.entry(key).or_insert_with(load).as_mut()
    }
}

impl Loaded {
    fn tables(&mut self) -> &Tables {
        let elf = &self.elf;
        let piece = |name| elf.piece(name).map(|piece| (piece.address, Arc::from(piece.bytes)));
        self.tables.get_or_insert_with(|| Tables { frames: piece(".eh_frame"), header: piece(".eh_frame_hdr") })
    }
}

/// A mapping of code in a line of /proc/PID/maps: "start-end perms offset device inode path".
fn mapping(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut next = || {
        let (word, after) = rest.split_once(' ')?;
        rest = after.trim_start();
        Some(word)
    };
    let (range, permissions, offset, _, inode) = (next()?, next()?, next()?, next()?, next()?);
    if permissions.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    let (offset, inode) = (hex(offset)?, inode.parse().ok()?);
    Some(Mapping { range: start..end, offset, inode, path: rest.to_owned(), is_given: false })
}

/// The mapped file itself: one of the same name that was put in its place later would have other tables.
fn source(pid: u32, mapping: &Mapping) -> Option<BytesSource> {
    let Mapping { range, path, inode, .. } = mapping;
    if path == "[vdso]" {
        let length = range.end.checked_sub(range.start).filter(|length| *length <= KERNEL)?;
        return memory::read(pid, range.start, length as usize).map(BytesSource::Memory);
    }
    if !path.starts_with('/') {
        return None;
    }
    let own = format!("/proc/{pid}/map_files/{:x}-{:x}", range.start, range.end);
    let places = [format!("/proc/{pid}/root{path}"), format!("/proc/{pid}/exe"), own];
    places.iter().find_map(|place| mapped(place, *inode)).map(BytesSource::File)
}

/// Opens a plain file with this inode number.
fn mapped(place: &str, inode: u64) -> Option<File> {
    let about = std::fs::metadata(place).ok()?;
    // Before it is opened: opening a device may do something.
    if !about.is_file() || about.ino() != inode {
        return None;
    }
    let file = File::from(open(place, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?);
    let about = file.metadata().ok()?;
    (about.is_file() && about.ino() == inode).then_some(file)
}

/// The last part of a path; a file that was removed since has " (deleted)" behind it.
fn base(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// A function's name as its author wrote it, without the hash that a compiler adds.
fn demangled(name: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(name) {
        return format!("{name:#}");
    }
    // Names of templates may be longer than anybody reads.
    let symbol = cpp_demangle::Symbol::new(name).ok().filter(|_| name.starts_with("_Z") && name.len() < LONGEST);
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    symbol.and_then(|symbol| symbol.demangle_with_options(&options).ok()).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_code_are_read() {
        let line = "7f0e5c028000-7f0e5c17d000 r-xp 00028000 08:01 1234                       /usr/lib/a b.so (deleted)";
        let read = mapping(line).unwrap();
        assert_eq!((read.range, read.offset, read.inode), (0x7f0e_5c02_8000..0x7f0e_5c17_d000, 0x28000, 1234));
        assert_eq!(base(&read.path), "a b.so");
        assert!(mapping(&line.replace("r-xp", "r--p")).is_none());
        assert_eq!(mapping("7f00-7f10 r-xp 00000000 00:00 0 ").unwrap().path, "");
        for line in ["", "7f00", "7f00-zz r-xp 0 0 0 ", "r-xp"] {
            assert!(mapping(line).is_none(), "{line}");
        }
    }

    #[test]
    fn names_are_demangled_without_hashes() {
        assert_eq!(demangled("_ZN3std6thread5sleep17h0123456789abcdefE"), "std::thread::sleep");
        assert_eq!(demangled("clock_nanosleep"), "clock_nanosleep");
        let waits = "_ZN4gloo9transport3tcp13UnboundBuffer8waitRecvEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE";
        assert_eq!(demangled(waits), "gloo::transport::tcp::UnboundBuffer::waitRecv");
        assert_eq!(demangled("_ZN4gloo"), "_ZN4gloo");
    }
}
