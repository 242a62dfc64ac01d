//! What a child writes to its standard output and error: kept to its last few kilobytes, for its last words. Never on our
//! own output, which belongs to tables and JSON.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes kept.
const KEPT: usize = 8 << 10;
/// Bytes taken in one go, so that a child that writes without end cannot hold us.
const TAKEN_AT_ONCE: usize = 1 << 20;
/// Lines quoted as last words, and characters of each.
const QUOTED: (usize, usize) = (4, 200);

/// The reading end of a child's output, and its tail.
pub struct Output {
    pipe: Option<File>,
    tail: VecDeque<u8>,
}

impl Output {
    /// From this end of a pipe, which must not block.
    pub fn new(pipe: OwnedFd) -> Self {
        Self { pipe: Some(File::from(pipe)), tail: VecDeque::new() }
    }

    /// To wait for, until the child and all that it started have closed it.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(File::as_fd)
    }

    /// Takes what is there.
    pub fn drain(&mut self) {
        let mut piece = [0; 16 << 10];
        let mut taken = 0;
        while taken < TAKEN_AT_ONCE {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(&mut piece) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    taken += count;
                    self.keep(&piece[..count]);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.tail.extend(bytes);
        let excess = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..excess);
    }

    /// The last lines, fit for one line of text each.
    pub fn last_words(&self) -> Vec<String> {
        let mut lines = self.lines();
        lines.drain(..lines.len().saturating_sub(QUOTED.0));
        lines
    }

    /// What is kept of it, in lines that say something.
    pub fn lines(&self) -> Vec<String> {
        let (_, characters) = QUOTED;
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let said = text.lines().map(str::trim).filter(|line| !line.is_empty());
        // Advice of the standard library after each panic, which says nothing about this one.
        let said = said.filter(|line| !line.starts_with("note: run with `RUST_BACKTRACE"));
        // Rulers that some programs draw around what they say.
        let said = said.filter(|line| line.chars().any(|character| !matches!(character, '-' | '=' | '*')));
        let clean = |line: &str| line.chars().filter(|c| !c.is_control()).take(characters).collect::<String>();
        said.map(clean).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_the_tail_is_kept_and_quoted_clean() {
        let (read, write) = crate::descriptor::output_pipe().unwrap();
        let mut output = Output::new(read);
        let mut write = File::from(write);
        for index in 0..3000 {
            writeln!(write, "line {index}").unwrap();
            output.drain();
        }
        assert!(output.tail.len() <= KEPT);
        writeln!(write, "\x1b[31mred\n\nnote: run with `RUST_BACKTRACE=1`\n{}", "x".repeat(500)).unwrap();
        drop(write);
        output.drain();
        assert!(output.descriptor().is_none(), "closed");
        let words = output.last_words();
        assert_eq!(words[..3], ["line 2998", "line 2999", "[31mred"]);
        assert_eq!(words[3].len(), 200);
    }
}
