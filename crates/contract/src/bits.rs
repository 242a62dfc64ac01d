//! Results compared bit by bit: element by element where both are at hand, by first elements and digests of blocks where they
//! are of other processes.
//!
//! Blocks begin at the same elements in results of every length: the first elements one by one, then eight blocks from each
//! power of two to the next. So a result of 1 KiB is compared with the beginning of one of 1 GiB.

use half::{bf16, f16};
use record::reproducible::{Bits, Difference};
use terms::{Dtype, Named, splitmix64};

/// Elements that are kept one by one.
const SINGLE: u64 = 64;
/// Blocks from a power of two to the next.
const PARTS: u64 = 8;
/// Hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// Blocks of so many elements behind the single ones: begin and end. The last one may be cut off.
fn blocks(elements: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = move |begin: u64| begin.saturating_add((1 << begin.ilog2()) / PARTS).min(elements);
    let first = (elements > SINGLE).then_some(SINGLE);
    std::iter::successors(first, move |begin| Some(end(*begin)).filter(|next| *next < elements))
        .map(move |begin| (begin, end(begin)))
}

/// The bits of an element.
fn word(element: &[u8]) -> u64 {
    match *element {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// The value of an element of a float type.
pub fn float(dtype: Dtype, element: &[u8]) -> f64 {
    value(dtype, word(element))
}

/// The value of these bits; those of no float as a whole number.
fn value(dtype: Dtype, bits: u64) -> f64 {
    match dtype {
        Dtype::F64 => f64::from_bits(bits),
        Dtype::F32 => f32::from_bits(bits as u32).into(),
        Dtype::F16 => f16::from_bits(bits as u16).into(),
        Dtype::Bf16 => bf16::from_bits(bits as u16).into(),
        _ => bits as f64,
    }
}

/// The shortest text that only this value of the type has.
fn text(dtype: Dtype, bits: u64) -> String {
    match dtype {
        Dtype::F64 => f64::from_bits(bits).to_string(),
        Dtype::F32 => f32::from_bits(bits as u32).to_string(),
        Dtype::F16 => f16::from_bits(bits as u16).to_string(),
        Dtype::Bf16 => bf16::from_bits(bits as u16).to_string(),
        _ => bits.to_string(),
    }
}

/// Floats of a type between the two, counted from one to the other: 1 for those next to each other.
fn ulps(dtype: Dtype, a: u64, b: u64) -> u64 {
    let sign = 1u64 << (8 * dtype.bytes() - 1);
    let place = |bits: u64| if bits & sign == 0 { i128::from(bits) } else { -i128::from(bits & !sign) };
    u64::try_from((place(a) - place(b)).abs()).unwrap_or(u64::MAX)
}

/// Takes in differing elements, the first of them first.
struct Seen {
    dtype: Dtype,
    difference: Option<Difference>,
    different: u64,
}

impl Seen {
    fn new(dtype: Dtype) -> Self {
        Self { dtype, difference: None, different: 0 }
    }

    fn take(&mut self, index: u64, a: u64, b: u64) {
        if a == b {
            return;
        }
        let dtype = self.dtype;
        self.different += 1;
        let first = || Difference {
            first: index,
            end: index + 1,
            values: Some([text(dtype, a), text(dtype, b)]),
            ..Difference::default()
        };
        let known = self.difference.get_or_insert_with(first);
        let (one, other) = (value(dtype, a), value(dtype, b));
        let relative = (one - other).abs() / one.abs().max(other.abs());
        known.ulps = Some(known.ulps.unwrap_or(0).max(ulps(dtype, a, b)));
        // Two zeros of different signs are equal numbers, and what is not a number is at no distance.
        known.relative = Some(known.relative.unwrap_or(0.0).max(if relative.is_finite() { relative } else { 0.0 }));
    }
}

/// How two results differ; None where all bits are the same. Elements behind the end of the shorter one are left out.
pub fn difference(dtype: Dtype, from: &[u8], to: &[u8]) -> Option<Difference> {
    if from == to {
        return None;
    }
    let element = dtype.bytes() as usize;
    let mut seen = Seen::new(dtype);
    for (index, (a, b)) in from.chunks_exact(element).zip(to.chunks_exact(element)).enumerate() {
        seen.take(index as u64, word(a), word(b));
    }
    let different = seen.different;
    seen.difference.map(|known| Difference { different: Some(different), ..known })
}

/// A result in short.
pub fn in_short(dtype: Dtype, result: &[u8]) -> Bits {
    let element = dtype.bytes() as usize;
    let elements = (result.len() / element) as u64;
    let width = 2 * element;
    let single = result.chunks_exact(element).take(SINGLE as usize);
    // A sum, because ranks in Python compute on whole tensors. With the index, so that two swapped elements change it.
    let digest = |(begin, end): (u64, u64)| {
        let block = result[begin as usize * element..end as usize * element].chunks_exact(element);
        let mixed = block.zip(begin..).map(|(element, index)| splitmix64(word(element) ^ splitmix64(index)));
        format!("{:0DIGITS$x}", mixed.fold(0, u64::wrapping_add))
    };
    Bits {
        dtype: dtype.name().to_owned(),
        elements,
        values: single.map(|element| format!("{:0width$x}", word(element))).collect(),
        blocks: blocks(elements).map(digest).collect(),
    }
}

/// The number that these digits of a longer text are; None where it has none there.
fn digits(of: &str, number: u64, width: usize) -> Option<u64> {
    let begin = usize::try_from(number).ok()?.checked_mul(width)?;
    u64::from_str_radix(of.get(begin..begin.checked_add(width)?)?, 16).ok()
}

/// How the common beginning of two results differs. None where they have none that can be compared: they are of different types,
/// or one is empty.
pub fn compared(from: &Bits, to: &Bits) -> Option<Option<Difference>> {
    let dtype: Dtype = from.dtype.parse().ok()?;
    let width = 2 * dtype.bytes() as usize;
    if from.dtype != to.dtype || from.elements.min(to.elements) == 0 {
        return None;
    }
    let mut seen = Seen::new(dtype);
    for index in 0..from.elements.min(to.elements).min(SINGLE) {
        seen.take(index, digits(&from.values, index, width)?, digits(&to.values, index, width)?);
    }
    if seen.difference.is_some() {
        return Some(seen.difference);
    }
    for (number, (one, other)) in blocks(from.elements).zip(blocks(to.elements)).enumerate() {
        // The block in which the shorter result ends has no equal one.
        if one != other {
            break;
        }
        let digest = |of: &Bits| digits(&of.blocks, number as u64, DIGITS);
        if digest(from)? != digest(to)? {
            return Some(Some(Difference { first: one.0, end: one.1, ..Difference::default() }));
        }
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    fn some(count: usize) -> Vec<f32> {
        (0..count).map(|index| 1.0 + index as f32 / 1024.0).collect()
    }

    #[test]
    fn the_first_element_that_differs_is_named_with_its_distance() {
        let (from, mut to) = (some(1000), some(1000));
        assert_eq!(difference(Dtype::F32, &bytes(&from), &bytes(&to)), None);
        to[700] = f32::from_bits(to[700].to_bits() + 1);
        to[900] = f32::from_bits(to[900].to_bits() - 3);
        let found = difference(Dtype::F32, &bytes(&from), &bytes(&to)).unwrap();
        assert_eq!((found.first, found.end, found.ulps, found.different), (700, 701, Some(3), Some(2)));
        assert_eq!(found.values.unwrap(), [from[700].to_string(), to[700].to_string()]);
        assert!((found.relative.unwrap() - 3.0 * f64::from(f32::EPSILON) / f64::from(from[900])).abs() < 1e-9);
        // Over zero: the two smallest numbers are two apart, and two zeros are none, but other bits.
        let tiny = f32::from_bits(1);
        let found = difference(Dtype::F32, &bytes(&[tiny]), &bytes(&[-tiny])).unwrap();
        assert_eq!(found.ulps, Some(2));
        let found = difference(Dtype::F32, &bytes(&[0.0]), &bytes(&[-0.0])).unwrap();
        assert_eq!((found.ulps, found.relative, found.different), (Some(0), Some(0.0), Some(1)));
    }

    #[test]
    fn blocks_cover_a_result_and_begin_alike_in_results_of_every_length() {
        for elements in [0, 1, 64, 65, 72, 100, 1 << 20, (1 << 20) + 5] {
            let all: Vec<(u64, u64)> = blocks(elements).collect();
            let begins = [SINGLE].into_iter().chain(all.iter().map(|(_, end)| *end));
            assert!(begins.zip(&all).all(|(begin, block)| begin == block.0), "{elements}: {all:?}");
            assert_eq!(all.last().map_or(SINGLE.min(elements), |(_, end)| *end), elements);
            let longer: Vec<(u64, u64)> = blocks(2 * elements + 9).take(all.len().saturating_sub(1)).collect();
            assert_eq!(longer, all[..all.len().saturating_sub(1)], "{elements}");
        }
        assert!(blocks(1 << 40).count() < 300);
    }

    #[test]
    fn a_result_in_short_shows_the_same_difference() {
        let long = some(5000);
        let short = |values: &[f32]| in_short(Dtype::F32, &bytes(values));
        let changed = |at: usize| {
            let mut other = long.clone();
            other[at] = f32::from_bits(other[at].to_bits() ^ 1);
            compared(&short(&long), &short(&other)).unwrap()
        };
        assert_eq!(compared(&short(&long), &short(&long)), Some(None));
        let exactly = changed(63).unwrap();
        assert_eq!((exactly.first, exactly.end, exactly.ulps), (63, 64, Some(1)));
        let about = changed(4500).unwrap();
        assert!(about.first <= 4500 && 4500 < about.end && about.end - about.first == 512, "{about:?}");
        assert_eq!((about.values, about.ulps), (None, None), "not known, and not guessed");
        // Two elements of a block that change places.
        let mut other = long.clone();
        other.swap(4500, 4600);
        assert_eq!(compared(&short(&long), &short(&other)).unwrap().unwrap().first, about.first);
        // The beginning of a longer result is the same, up to the block in which the shorter one ends.
        assert_eq!(compared(&short(&long[..1024]), &short(&long)), Some(None));
        let mut other = long.clone();
        other[1000] = 0.0;
        assert!(compared(&short(&long[..1024]), &short(&other)).unwrap().is_some());
        assert_eq!(compared(&short(&long[..1001]), &short(&other)), Some(None), "the block ends behind it");
        assert_eq!(compared(&short(&[]), &short(&long)), None);
        assert_eq!(compared(&Bits { dtype: "f64".into(), ..short(&long) }, &short(&long)), None);
        // A record may hold anything.
        let cut = Bits { values: "äöü".into(), ..short(&long) };
        assert_eq!(compared(&cut, &short(&long)), None);
        assert_eq!(compared(&Bits { elements: u64::MAX, ..short(&long) }, &short(&long)), Some(None));
    }

    #[test]
    fn every_type_has_its_own_neighbours() {
        for (dtype, one) in [(Dtype::F16, 0x3c00_u64), (Dtype::Bf16, 0x3f80), (Dtype::F64, 1.0f64.to_bits())] {
            let bytes = |bits: u64| bits.to_ne_bytes()[..dtype.bytes() as usize].to_vec();
            if cfg!(target_endian = "little") {
                let found = difference(dtype, &bytes(one), &bytes(one + 1)).unwrap();
                assert_eq!(found.ulps, Some(1), "{dtype}");
                assert_eq!(float(dtype, &bytes(one)), 1.0);
            }
        }
    }
}
