//! The bar below the verdict of a comparison.

use std::fmt::Write as _;

/// A bar of the verdicts of cases, in their colours.
pub(super) fn bar(number: impl Fn(&str) -> usize) -> String {
    let parts = [("worse", "failed"), ("cannot tell", "ok care"), ("same", "undone"), ("better", "ok")];
    // Equal cases are the good news where there is no other.
    let only_same = parts.iter().all(|(verdict, _)| *verdict == "same" || number(verdict) == 0);
    let parts = parts.map(|(verdict, class)| (number(verdict), if only_same { "ok" } else { class }));
    let total = parts.iter().map(|(number, _)| number).sum::<usize>().max(1) as f64;
    let (mut rects, mut begin) = (String::new(), 0.0);
    for (number, class) in parts.into_iter().filter(|(number, _)| *number > 0) {
        let width = number as f64 / total * 1000.0;
        let _ = write!(rects, "<rect class=\"{class}\" x=\"{begin:.1}\" width=\"{width:.1}\" height=\"6\"/>");
        begin += width;
    }
    format!(
        "<svg class=\"share\" viewBox=\"0 0 1000 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{rects}</svg>"
    )
}
