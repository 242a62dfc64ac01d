//! How wide the columns of a table are.

use super::lines::Measure;

/// The columns of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Columns {
    /// Size of the text.
    pub(super) size: f64,
    /// Room on either side of a cell's text.
    pub(super) inset: f64,
    /// Widths of text, without the insets.
    pub(super) widths: Vec<f64>,
}

/// Sizes of text, by falling preference.
const SIZES: [f64; 4] = [8.0, 7.2, 6.4, 5.8];
const INSET: f64 = 4.0;
/// The widest character, in parts of the size: a column holds it.
const WIDEST: f64 = 1.2;
/// A word is very long that takes more than this share of a table.
const LONG: f64 = 0.25;

/// Columns for text with these measures, side by side in this room: of the largest text for which each row is one
/// line; else of the smallest that so many columns may have, and words wrap.
pub(super) fn fit(measures: &[Measure], room: f64) -> Columns {
    let number = measures.len().max(1) as f64;
    let inset = INSET.min(room / number / 6.0);
    let room = room - 2.0 * inset * number;
    let least = smallest(measures.len());
    let is_whole = |size: f64| measures.iter().map(|measure| measure.line * size).sum::<f64>() <= room;
    let whole = SIZES.into_iter().find(|size| *size >= least && is_whole(*size));
    // Words that break are harder to read than small ones.
    let is_unbroken = |size: f64| measures.iter().map(|measure| readable(*measure, size, room)).sum::<f64>() <= room;
    let unbroken = || SIZES.into_iter().find(|size| *size <= least && is_unbroken(*size));
    let size = whole.or_else(unbroken).unwrap_or(SIZES[SIZES.len() - 1]).min(room / number / WIDEST);
    Columns { size, inset, widths: widths(measures, size, room) }
}

/// Wide tables get smaller text before they get narrow columns.
fn smallest(columns: usize) -> f64 {
    match columns {
        13.. => SIZES[3],
        10.. => SIZES[2],
        8.. => SIZES[1],
        _ => SIZES[0],
    }
}

/// The least width at which a column reads well: words are whole, but for a very long one, which breaks at its marks.
fn readable(measure: Measure, size: f64, room: f64) -> f64 {
    let Measure { word, part, .. } = measure;
    (word * size).min((part * size).max(LONG * room)).max(WIDEST * size)
}

fn widths(measures: &[Measure], size: f64, room: f64) -> Vec<f64> {
    let lines: Vec<f64> = measures.iter().map(|measure| measure.line * size).collect();
    if lines.iter().sum::<f64>() <= room {
        return lines;
    }
    let readable: Vec<f64> = measures.iter().map(|measure| readable(*measure, size, room)).collect();
    if readable.iter().sum::<f64>() <= room {
        return levelled(&readable, &lines, room);
    }
    levelled(&vec![WIDEST * size; measures.len()], &readable, room)
}

/// Widths from `least` to `most` that fill the room: what is narrower than some level keeps what it wants, and what is
/// wider gets the level, so that short cells never wrap for the sake of long ones.
fn levelled(least: &[f64], most: &[f64], room: f64) -> Vec<f64> {
    let at = |level: f64| least.iter().zip(most).map(|(least, most)| most.min(level).max(*least)).collect::<Vec<f64>>();
    let (mut low, mut high) = (0.0, room);
    for _ in 0..60 {
        let level = 0.5 * (low + high);
        let fits = at(level).iter().sum::<f64>() <= room;
        (low, high) = if fits { (level, high) } else { (low, level) };
    }
    at(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: f64 = 499.0;

    fn column(line: f64, word: f64) -> Measure {
        Measure { line, word, part: word }
    }

    fn total(columns: &Columns) -> f64 {
        columns.widths.iter().sum::<f64>() + 2.0 * columns.inset * columns.widths.len() as f64
    }

    #[test]
    fn narrow_tables_are_as_wide_as_their_text() {
        let columns = fit(&[column(5.0, 5.0), column(10.0, 3.0)], ROOM);
        assert_eq!((columns.size, columns.widths), (8.0, vec![40.0, 80.0]));
    }

    #[test]
    fn many_columns_get_smaller_text_and_few_wrap() {
        let many = fit(&[column(4.9, 4.9); 12], ROOM);
        assert_eq!((many.size, many.widths.len()), (6.4, 12));
        let few = fit(&[column(5.0, 5.0), column(100.0, 6.0), column(40.0, 6.0)], ROOM);
        assert_eq!(few.size, 8.0);
        // The short column keeps its width.
        assert!((few.widths[0] - 40.0).abs() < 1e-9 && (total(&few) - ROOM).abs() < 1e-6, "{few:?}");
    }

    #[test]
    fn a_very_long_word_leaves_room_for_others() {
        let path = Measure { line: 45.0, word: 45.0, part: 10.0 };
        let columns = fit(&[path, column(90.0, 6.0), column(2.0, 2.0)], ROOM);
        assert!(columns.size == 8.0 && columns.widths[1] > 200.0 && columns.widths[2] == 16.0, "{columns:?}");
    }

    #[test]
    fn no_table_is_wider_than_its_room() {
        for number in [1, 2, 7, 14, 64, 300] {
            for word in [0.5, 5.0, 500.0] {
                let columns = fit(&vec![column(word * 3.0, word); number], ROOM);
                assert!(total(&columns) <= ROOM + 1e-6, "{number} {word}");
                assert!(word < WIDEST || columns.widths.iter().all(|width| *width >= 1.19 * columns.size));
            }
        }
        assert!(fit(&[], ROOM).widths.is_empty());
    }
}
