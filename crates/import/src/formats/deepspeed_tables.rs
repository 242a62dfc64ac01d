//! What the two tables of DeepSpeed share: sizes as `convert_size` of `deepspeed/utils/comms_logging.py` (and of
//! `benchmarks/communication/utils.py`) prints them, numbers with a fixed count of decimals, and the line that names
//! the backend.

use super::command;
use super::nccl::plain;
use crate::numbers;

/// The units, each 1024 times the one before.
const UNITS: &[&str] = &["B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];

/// A size as it is printed: `0B`, `128.0 B`, `678.86 MB`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PrintedSize {
    /// The nearest whole number of bytes.
    pub(super) bytes: u64,
    /// The unit, if the size is rounded to two decimals of it; sizes in bytes are exact.
    pub(super) rounded_in: Option<&'static str>,
}

impl PrintedSize {
    /// Reads a size from the first words of a row; the other words are behind it.
    pub(super) fn parse<'w, 't>(words: &'w [&'t str]) -> Result<(Self, &'w [&'t str]), String> {
        let expected = |word: &str| format!("expected a size such as `2.0 KB`, found `{}`", plain(word));
        match words {
            ["0B", rest @ ..] => Ok((Self { bytes: 0, rounded_in: None }, rest)),
            [number, unit, rest @ ..] => {
                let power =
                    UNITS.iter().position(|known| known == unit).ok_or_else(|| expected(&words[..2].join(" ")))?;
                let value = numbers::plain(number).map_err(|why| format!("expected a size, {}", why.found(number)))?;
                // Python prints a float: without a decimal the number is cut.
                let has_decimals = number.split_once('.').is_some_and(|(_, behind)| (1..=2).contains(&behind.len()));
                let bytes = (value * 1024_f64.powi(i32::try_from(power).unwrap_or(0))).round();
                if !has_decimals || !(1.0..1024.0).contains(&value) || bytes > 1e18 {
                    return Err(expected(&words[..2].join(" ")));
                }
                let rounded_in = (power > 0).then_some(UNITS[power]);
                Ok((Self { bytes: bytes as u64, rounded_in }, rest))
            }
            _ => Err(expected(words.first().unwrap_or(&""))),
        }
    }

    /// How far the bytes may be from those of the message: half of the last decimal.
    pub(super) fn within(self) -> f64 {
        let power = UNITS.iter().position(|unit| Some(*unit) == self.rounded_in).unwrap_or(0);
        if power == 0 { 0.0 } else { 0.005 * 1024_f64.powi(i32::try_from(power).unwrap_or(0)) }
    }
}

/// A number with so many decimals: with less, the line is cut within it.
pub(super) fn decimals(word: &str, count: usize) -> Result<f64, String> {
    let value = numbers::plain(word).map_err(|why| format!("expected a number, {}", why.found(word)))?;
    match word.split_once('.') {
        Some((_, behind)) if behind.len() == count && value >= 0.0 => Ok(value),
        _ => Err(format!("expected a number with {count} decimals, found `{}`: the line may be cut", plain(word))),
    }
}

/// The backend that a log of DeepSpeed names: `Initializing TorchBackend in DeepSpeed with backend nccl`.
pub(super) fn backend(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("in DeepSpeed with backend ")?;
    rest.split_ascii_whitespace().next().map(plain)
}

/// The backend as it is called here, and the device that holds its buffers. DeepSpeed's default is nccl.
pub(super) fn counterpart(backend: Option<&str>) -> Result<(&'static str, &'static str), String> {
    match backend {
        None | Some("nccl") => Ok(("nccl", "cuda")),
        Some("gloo") => Ok(("gloo", "cpu")),
        Some("mpi") => Ok(("mpi", "cuda")),
        Some(other) => Err(format!("backend `{}`: only nccl, gloo and mpi have a counterpart here", plain(other))),
    }
}

/// The ranks of the job, from a command line or from what DeepSpeed's launcher logs: `dist_world_size=8`.
pub(super) fn world(text: &str) -> Option<u32> {
    const LAUNCHERS: &[&str] = &["mpirun", "mpiexec", "srun", "torchrun", "torch.distributed.run"];
    if let Some((_, rest)) = text.split_once("dist_world_size=") {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        return rest[..end].parse().ok().filter(|ranks| *ranks > 0);
    }
    let is_command = LAUNCHERS.iter().any(|launcher| text.contains(launcher));
    is_command.then(|| command::processes(text)).flatten()
}

/// The line without what another program put before the head of its table; None where it begins in another way.
pub(super) fn behind<'l>(text: &'l str, prefix: &str) -> Option<&'l str> {
    match prefix.trim_end() {
        "" => Some(text),
        // A line end may have no space in front of it: `node-a:`.
        prefix => text.trim_start().strip_prefix(prefix.trim_start()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_1024_bytes_with_two_decimals() {
        let parsed = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            PrintedSize::parse(&words).map(|(size, rest)| (size.bytes, size.rounded_in, rest.len()))
        };
        assert_eq!(parsed("0B 3"), Ok((0, None, 1)));
        assert_eq!(parsed("128.0 B 146"), Ok((128, None, 1)));
        assert_eq!(parsed("6.31 KB 1"), Ok((6461, Some("KB"), 1)));
        assert_eq!(parsed("31.67 GB"), Ok((34_005_403_566, Some("GB"), 0)));
        for damaged in ["6,31 KB", "6 KB", "6. KB", "6.31 KiB", "6.31", "x", "-1.0 B", "2000.0 B"] {
            assert!(parsed(damaged).is_err(), "{damaged}");
        }
    }

    #[test]
    fn a_number_that_is_cut_is_none() {
        assert_eq!(decimals("11.12", 2), Ok(11.12));
        for cut in ["11.1", "11.", "11", "11,12", "-1.00", "x"] {
            assert!(decimals(cut, 2).is_err(), "{cut}");
        }
    }
}
