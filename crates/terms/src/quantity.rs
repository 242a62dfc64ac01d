//! Quantities with units: bytes, seconds, bandwidth, ratios.

use std::fmt;
use std::str::FromStr;

/// A number of bytes. A bare number is bytes; MB = 1e6, MiB = 2^20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A duration in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub f64);

/// Bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Bandwidth(pub f64);

/// A share: 0.02 is written `2%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Ratio(pub f64);

/// A text that is not the quantity it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQuantityError {
    kind: &'static str,
    text: String,
    form: &'static str,
    /// The text is a number of bytes, and no 64 bits hold it.
    too_large: bool,
    /// What its two meanings are written like.
    meanings: Option<String>,
}

impl ParseQuantityError {
    fn new(kind: &'static str, text: &str, form: &'static str) -> Self {
        Self { kind, text: text.to_owned(), form, too_large: false, meanings: None }
    }

    /// What is wrong, without the [hint](Self::hint).
    pub fn what(&self) -> String {
        let shown: String = self.text.chars().take(64).collect();
        if self.too_large {
            return format!("`{shown}` is too large: 16EiB (2^64 bytes) and more cannot be counted");
        }
        match self.meanings {
            Some(_) => format!("`{shown}` has two meanings"),
            None => format!("`{shown}` is not {} (write it like {})", self.kind, self.form),
        }
    }

    /// What to write instead, where the text has two meanings.
    pub fn hint(&self) -> Option<&str> {
        self.meanings.as_deref()
    }
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what())?;
        self.hint().map_or(Ok(()), |hint| write!(f, ": {hint}"))
    }
}

impl std::error::Error for ParseQuantityError {}

const BINARY: [(u64, &str); 6] =
    [(1 << 60, "EiB"), (1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
const DECIMAL: [(u64, &str); 6] = [
    (1_000_000_000_000_000_000, "EB"),
    (1_000_000_000_000_000, "PB"),
    (1_000_000_000_000, "TB"),
    (1_000_000_000, "GB"),
    (1_000_000, "MB"),
    (1_000, "KB"),
];

/// `64KiB`, `100MB`, `1023`: the largest unit that divides the number, binary first; reads back to the same number.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = BINARY.iter().chain(&DECIMAL).find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit));
        match unit {
            Some((unit, name)) => f.pad(&format!("{}{name}", self.0 / unit)),
            None => f.pad(&self.0.to_string()),
        }
    }
}

impl Bytes {
    /// For reading: exact where that is short (`64 KiB`, `100 MB`), else three significant digits.
    pub fn short(self) -> String {
        let exact = self.to_string();
        let digits = exact.bytes().take_while(u8::is_ascii_digit).count();
        match exact.split_at(digits) {
            (number, "") if self.0 < 1024 => format!("{number} B"),
            (number, unit) if !unit.is_empty() && digits <= 4 => format!("{number} {unit}"),
            _ => self.about(),
        }
    }

    /// For reading, not for parsing back: three significant digits and a binary unit (`5.86 GiB`).
    pub fn about(self) -> String {
        match BINARY.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => {
                let value = self.0 as f64 / *unit as f64;
                let decimals = if value >= 100.0 {
                    0
                } else if value >= 10.0 {
                    1
                } else {
                    2
                };
                format!("{value:.decimals$} {name}")
            }
            None => format!("{} B", self.0),
        }
    }
}

/// Splits "12.5MiB" into the number and the unit.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | '_');
    let mut end = text.find(|c: char| !is_number(c)).unwrap_or(text.len());
    // An exponent ("1e6") belongs to the number when a digit follows it.
    let rest = &text[end..];
    if rest.starts_with(['e', 'E']) {
        let digits = rest[1..].trim_start_matches(['+', '-']);
        if digits.starts_with(|c: char| c.is_ascii_digit()) {
            let tail = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            end = text.len() - digits.len() + tail;
        }
    }
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

/// A decimal number without an exponent as a whole number of parts: "16.1" is 161 of 10 parts.
fn decimal(text: &str) -> Option<(u128, u128)> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let parts = 10_u128.checked_pow(u32::try_from(rest.len()).ok()?)?;
    let digits = if whole.is_empty() { 0 } else { whole.parse::<u128>().ok()?.checked_mul(parts)? };
    let rest = if rest.is_empty() { 0 } else { rest.parse::<u128>().ok()? };
    Some((digits.checked_add(rest)?, parts))
}

/// How to write both meanings of a size that ends with a bare prefix: K is 1024 for nccl-tests, and 1000 as an SI prefix.
fn meanings(text: &str, unit: &str) -> Option<String> {
    let prefix = unit.to_ascii_uppercase();
    let prefix = ["K", "M", "G", "T", "P", "E"].into_iter().find(|known| *known == prefix)?;
    let number = text.trim().strip_suffix(unit)?.trim();
    // As SI spells it.
    let decimal = if prefix == "K" { "k" } else { prefix };
    let one = |unit: String| {
        let size = format!("{number}{unit}");
        let Bytes(bytes) = size.parse().ok()?;
        Some(format!("{size} ({} bytes)", crate::number::thousands(bytes)))
    };
    Some(format!("write {} or {}", one(format!("{prefix}iB"))?, one(format!("{decimal}B"))?))
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseQuantityError::new("a number of bytes", text, "64KiB, 100MB or 4096");
        let large = || ParseQuantityError { too_large: true, ..error() };
        let (number, unit) = split_unit(text).ok_or_else(error)?;
        let lower = unit.to_ascii_lowercase();
        let factor = match lower.as_str() {
            "" | "b" => 1,
            _ => BINARY
                .iter()
                .chain(&DECIMAL)
                .find(|(_, name)| name.to_ascii_lowercase() == lower)
                .map(|(factor, _)| *factor)
                .ok_or_else(|| ParseQuantityError { meanings: meanings(text, unit), ..error() })?,
        };
        // Decimal numbers never pass through a float: every u64 is exact, and 16.1GB are a whole number of bytes.
        let digits = text.trim().trim_end_matches(|c: char| !c.is_ascii_digit()).replace('_', "");
        if let Some((digits, parts)) = decimal(&digits) {
            let bytes = digits.checked_mul(factor.into()).filter(|bytes| bytes / parts <= u64::MAX.into());
            let bytes = bytes.ok_or_else(large)?;
            return if bytes % parts == 0 { Ok(Self((bytes / parts) as u64)) } else { Err(error()) };
        }
        let bytes = number * factor as f64;
        match bytes {
            _ if bytes >= 18_446_744_073_709_551_616.0 => Err(large()),
            _ if bytes >= 0.0 && bytes.fract() == 0.0 => Ok(Self(bytes as u64)),
            _ => Err(error()),
        }
    }
}

/// Three significant digits with the unit that suits (`0.14 us`, `12.3 ms`, `4.00 s`).
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.abs();
        let (value, unit) = if magnitude == 0.0 {
            (0.0, "s")
        } else if magnitude < 1e-7 {
            (self.0 * 1e9, "ns")
        } else if magnitude < 0.999_5e-3 {
            (self.0 * 1e6, "us")
        } else if magnitude < 0.999_5 {
            (self.0 * 1e3, "ms")
        } else {
            (self.0, "s")
        };
        let decimals = match value.abs() {
            v if v >= 99.95 => 0,
            v if v >= 9.995 => 1,
            _ => 2,
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

impl FromStr for Seconds {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseQuantityError::new("a duration", text, "5us, 20ms, 60s or 2min");
        let (number, unit) = split_unit(text).ok_or_else(error)?;
        // Divisions, because 5 / 1e6 is the f64 nearest to 5e-6 and 5 * 1e-6 is not.
        let seconds = match unit {
            "ns" => number / 1e9,
            "us" | "µs" => number / 1e6,
            "ms" => number / 1e3,
            "" | "s" => number,
            "min" => number * 60.0,
            "h" => number * 3600.0,
            _ => return Err(error()),
        };
        (seconds >= 0.0).then_some(Self(seconds)).ok_or_else(error)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            v if v >= 1e9 => (v / 1e9, "GB/s"),
            v if v >= 1e6 => (v / 1e6, "MB/s"),
            v => (v, "B/s"),
        };
        f.pad(&format!("{value}{unit}"))
    }
}

impl FromStr for Bandwidth {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseQuantityError::new("a bandwidth", text, "10GB/s, 800MiB/s or 100Gbit/s");
        if let Some(bits) = text.trim().strip_suffix("bit/s") {
            let (number, prefix) = split_unit(bits).ok_or_else(error)?;
            let factor = match prefix {
                "" => 1.0,
                "k" | "K" => 1e3,
                "M" => 1e6,
                "G" => 1e9,
                "T" => 1e12,
                "P" => 1e15,
                "E" => 1e18,
                _ => return Err(error()),
            };
            return (number > 0.0).then_some(Self(number * factor / 8.0)).ok_or_else(error);
        }
        let amount = text.trim().strip_suffix("/s").ok_or_else(error)?;
        let (number, unit) = split_unit(amount).ok_or_else(error)?;
        let unit: Bytes = format!("1{unit}").parse().map_err(|_| error())?;
        (number > 0.0).then_some(Self(number * unit.0 as f64)).ok_or_else(error)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Through a rounding that survives f64's decimal noise: 0.07 is `7%`, never `7.000000000000001%`.
        f.pad(&format!("{}%", (self.0 * 1e8).round() / 1e6))
    }
}

impl FromStr for Ratio {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseQuantityError::new("a share", text, "2% or 0.02");
        let (number, unit) = split_unit(text).ok_or_else(error)?;
        let value = match unit {
            "%" => number / 100.0,
            "" => number,
            _ => return Err(error()),
        };
        (value >= 0.0).then_some(Self(value)).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_and_write() {
        for (text, value) in [("64KiB", 65536), ("1MB", 1_000_000), ("1.5MiB", 1_572_864), ("4096", 4096), ("0", 0)] {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(value), "{text}");
        }
        assert_eq!("18446744073709551615".parse::<Bytes>().unwrap(), Bytes(u64::MAX));
        // None of these is a whole number as a float.
        for (text, value) in
            [("16.1GB", 16_100_000_000), ("4.1MB", 4_100_000), ("8.2 GB", 8_200_000_000), (".5KiB", 512)]
        {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(value)), "{text}");
        }
        for wrong in ["", "64K", "1.3", "-1", "-1KiB", "1e30GB", "KiB", "nan", "64 KiB x", "1P", "1E", "1ZiB", "1.1GiB"]
        {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
        for value in [0, 1, 1000, 1024, 1023, 1 << 30, 100_000_000, 1_048_577] {
            assert_eq!(Bytes(value).to_string().parse::<Bytes>().unwrap(), Bytes(value));
        }
    }

    #[test]
    fn bytes_have_every_prefix_up_to_exa_and_no_more_than_64_bits() {
        for (power, prefix) in (1_u32..).zip(["K", "M", "G", "T", "P", "E"]) {
            let (binary, decimal) = (1024_u64.pow(power), 1000_u64.pow(power));
            for (text, value) in [
                (format!("1{prefix}iB"), binary),
                (format!("1.5{prefix}iB"), binary + binary / 2),
                (format!("3 {}ib", prefix.to_lowercase()), 3 * binary),
                (format!("1{prefix}B"), decimal),
            ] {
                assert_eq!(text.parse::<Bytes>(), Ok(Bytes(value)), "{text}");
            }
            assert_eq!(Bytes(binary).to_string(), format!("1{prefix}iB"));
            assert_eq!(Bytes(decimal).to_string().parse::<Bytes>(), Ok(Bytes(decimal)));
        }
        assert_eq!("18446744073709551615B".parse::<Bytes>(), Ok(Bytes(u64::MAX)), "exact with a unit, too");
        assert_eq!("9007199254740993KiB".parse::<Bytes>(), Ok(Bytes(9_007_199_254_740_993 << 10)));
        for large in ["16EiB", "18446744073709551616", "18014398509481984KiB", "19EB", "1e19EiB", "16.5EiB"] {
            let why = large.parse::<Bytes>().unwrap_err().to_string();
            assert!(why.contains("is too large"), "{why}");
        }
        assert_eq!(Bytes(3 << 50).about(), "3.00 PiB");
        assert_eq!("1PB/s".parse::<Bandwidth>().unwrap(), Bandwidth(1e15));
        assert_eq!("2Ebit/s".parse::<Bandwidth>().unwrap(), Bandwidth(2.5e17));
    }

    #[test]
    fn a_prefix_alone_has_two_meanings() {
        let error = |text: &str| text.parse::<Bytes>().unwrap_err();
        assert_eq!(error("1K").to_string(), "`1K` has two meanings: write 1KiB (1,024 bytes) or 1kB (1,000 bytes)");
        assert_eq!(error(" 2 g ").hint(), Some("write 2GiB (2,147,483,648 bytes) or 2GB (2,000,000,000 bytes)"));
        // With one of the meanings it is not a size.
        for text in ["1.3K", "16E", "K", "1x", ""] {
            assert_eq!(error(text).hint(), None, "{text}");
        }
    }

    #[test]
    fn other_quantities_read_and_write() {
        assert_eq!("5us".parse::<Seconds>().unwrap(), Seconds(5e-6));
        assert_eq!("2min".parse::<Seconds>().unwrap(), Seconds(120.0));
        assert_eq!("10GB/s".parse::<Bandwidth>().unwrap(), Bandwidth(1e10));
        assert_eq!("100Gbit/s".parse::<Bandwidth>().unwrap(), Bandwidth(12.5e9));
        assert_eq!("2%".parse::<Ratio>().unwrap(), Ratio(0.02));
        assert_eq!(Ratio(0.07).to_string(), "7%");
        assert_eq!(Seconds(1.4e-7).to_string(), "0.14 us");
        assert_eq!(Seconds(0.0123).to_string(), "12.3 ms");
        assert!("-1s".parse::<Seconds>().is_err());
    }
}
