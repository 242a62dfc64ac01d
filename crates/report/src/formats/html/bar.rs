//! The bar below the verdict of a comparison.

use crate::markup::{Html, html};

/// A bar of the verdicts of cases, in their colours.
pub(super) fn bar(number: impl Fn(&str) -> usize) -> Html {
    let parts = [("worse", "failed"), ("cannot tell", "ok care"), ("same", "undone"), ("better", "ok")];
    // Equal cases are the good news where there is no other.
    let only_same = parts.iter().all(|(verdict, _)| *verdict == "same" || number(verdict) == 0);
    shares(&parts.map(|(verdict, class)| (if only_same { "ok" } else { class }, number(verdict))))
}

/// A bar with a part for each class, as wide as its number.
pub(super) fn shares(parts: &[(&'static str, usize)]) -> Html {
    let total = parts.iter().map(|(_, number)| number).sum::<usize>().max(1) as f64;
    let (mut rects, mut begin) = (Html::new(), 0.0);
    for (class, number) in parts.iter().filter(|(_, number)| *number > 0) {
        let width = *number as f64 / total * 1000.0;
        html!(rects => "<rect class=\"{}\" x=\"{:.1}\" width=\"{:.1}\" height=\"6\"/>", class, begin, width);
        begin += width;
    }
    html!(
        "<svg class=\"share\" viewBox=\"0 0 1000 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{}</svg>",
        rects
    )
}
