//! The constants of a machine, before and after a fit.

use terms::Named;

use super::rows::{Fitted, Judged};

/// The constants as a table, with the errors of the fit.
pub(super) fn text(fitted: &Fitted) -> String {
    let fit = &fitted.fit;
    let mut text =
        format!("constants moved by {}\n", view::number::count(fitted.rows, "measured step", "measured steps"));
    for (before, after) in fit.before.listed().iter().zip(fit.after.listed()) {
        text += &format!(
            "  {:<20} {:>10.3e} -> {:>10.3e} {:<6} (+- {:.0}% -> {:.0}%)\n",
            before.name.name(),
            before.value,
            after.value,
            before.unit,
            100.0 * before.spread,
            100.0 * after.spread
        );
    }
    let percent = |errors: &[f64]| {
        let [mean, median, _] = Judged::sizes(errors);
        format!("mean {:.1}%, median {:.1}%", 100.0 * mean, 100.0 * median)
    };
    let left_out = if fit.folds == fitted.rows { "left out one by one" } else { "left out in groups" };
    text += &format!("  errors before: {}\n", percent(&fit.errors_before));
    text += &format!("  errors after:  {}\n", percent(&fit.errors_after));
    text + &format!("  {left_out}: {}\n\n", percent(&fit.left_out))
}
