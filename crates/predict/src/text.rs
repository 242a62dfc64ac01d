//! Predictions as text for a terminal of so many columns.

use terms::Named;
use terms::number::{self, count};
use terms::text::one_line;
use view::terminal::{Column, Row, Table};

use crate::candidates;
use crate::sweep::{Choices, Swept};
use crate::{Evidence, Fitted, Judged, Prediction, Predictor, Workload, category_name};

/// What every answer begins with: nothing was measured, and what a fit moved.
pub fn head(predictor: &Predictor, fitted: Option<&Fitted>) -> String {
    let rests = match predictor.evidence {
        Evidence::Public => "a guess from public numbers",
        Evidence::Rows => "from public numbers, moved by measured steps",
        Evidence::Measured => "from measured operations and exchanges",
    };
    let banner = format!("PREDICTED, NOT MEASURED: {} ({rests})\n\n", one_line(&predictor.profile.name));
    banner + &fitted.map_or_else(String::new, constants)
}

/// Seconds with three digits.
fn seconds(value: f64) -> String {
    match value {
        value if value >= 1.0 => format!("{value:.2} s"),
        value if value >= 1e-3 => format!("{:.1} ms", value * 1e3),
        value => format!("{:.1} us", value * 1e6),
    }
}

fn interval(prediction: &Prediction) -> String {
    match prediction.interval {
        Some((low, high)) => format!("{} to {}", seconds(low), seconds(high)),
        None => "unknown".to_owned(),
    }
}

/// One prediction.
pub fn prediction(workload: &Workload, prediction: &Prediction, width: usize) -> String {
    let recipe = &workload.recipe;
    let step = if prediction.interval.is_some() { seconds(prediction.seconds) } else { "unknown".to_owned() };
    let mut text = format!(
        "{}, mesh {} ({}), {} a step in {} of {}\n\nstep      {step}  (90%: {})\nlimit     {}\n",
        recipe.model.name,
        recipe.mesh,
        count(recipe.mesh.ranks(), "rank", "ranks"),
        count(recipe.global_batch(), "sample", "samples"),
        count(workload.micros(), "micro-batch", "micro-batches"),
        recipe.micro_batch,
        interval(prediction),
        prediction.limit
    );
    let fits = if prediction.fits() { "fits" } else { "DOES NOT FIT" };
    text += &format!(
        "memory    {:.2} GB of {:.0} GB on stage {}: {fits}\n\n",
        prediction.memory.bytes() as f64 / 1e9,
        prediction.memory_bytes as f64 / 1e9,
        prediction.memory.stage
    );
    let mut table = Table::new([Column::left("part"), Column::right("time"), Column::right("share")]);
    for (name, part) in prediction.parts.listed() {
        let share = format!("{:.1}%", 100.0 * part / prediction.seconds);
        table.push(Row::new([name.replace('_', "-"), seconds(part), share]));
    }
    text += &table.text(width);
    let mut table = Table::new([Column::left("memory"), Column::right("GB")]);
    for (category, bytes) in &prediction.memory.categories {
        table.push(Row::new([category_name(*category).to_owned(), format!("{:.3}", *bytes as f64 / 1e9)]));
    }
    text += &format!("\n{}\n", table.text(width));
    let spreads = prediction.spreads;
    text + &format!(
        "interval  constants {:.0}%, launches {:.0}%, model {:.0}%\nnarrow by {}\n",
        100.0 * spreads.constants,
        100.0 * spreads.launches,
        100.0 * spreads.model,
        prediction.would_help
    )
}

/// The best of a sweep.
pub fn sweep((base, choices): (&Workload, &Choices), found: &Swept, has_plan: bool, width: usize) -> String {
    let mut text = format!(
        "{} on {}, {} a step: {} legal, {} fit, {} simulated\n\n",
        base.recipe.model.name,
        count(choices.ranks, "rank", "ranks"),
        count(choices.global_batch, "sample", "samples"),
        found.legal,
        found.fitting,
        found.simulated
    );
    let mut table = Table::new([
        Column::right("#"),
        Column::right("step"),
        Column::right("90%"),
        Column::right("GB"),
        Column::left("mesh, schedule, micro-batches x samples").wraps(40, 20),
        Column::left("limited by").wraps(24, 12),
    ]);
    for (at, ranked) in found.best.iter().enumerate() {
        let prediction = &ranked.prediction;
        let place = format!("{}{}", at + 1, if ranked.tied { "=" } else { "" });
        table.push(Row::new([
            place,
            seconds(prediction.seconds),
            interval(prediction),
            format!("{:.1}", prediction.memory.bytes() as f64 / 1e9),
            candidates::words(&ranked.candidate),
            prediction.limit.to_owned(),
        ]));
    }
    text += &table.text(width);
    if found.best.iter().any(|ranked| ranked.tied) {
        text += "\n= cannot be told apart from the first\n";
    }
    if let Some(first) = found.best.first() {
        let parts = first.prediction.parts.listed();
        let shares = parts.iter().filter(|(_, part)| *part >= 0.005 * first.prediction.seconds);
        let words: Vec<String> = shares
            .map(|(name, part)| format!("{} {:.0}%", name.replace('_', "-"), 100.0 * part / first.prediction.seconds))
            .collect();
        text += &format!("\nparts of the first: {}\nnarrow by: {}\n", words.join(", "), first.prediction.would_help);
    }
    if !has_plan {
        text += "measure the first three: add `--plan FILE`, then `rankmark run FILE`\n";
    }
    text
}

/// The constants as a table, with the errors of the fit.
fn constants(fitted: &Fitted) -> String {
    let fit = &fitted.fit;
    let mut text = format!("constants moved by {}\n", count(fitted.rows, "measured step", "measured steps"));
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

/// The errors as text.
pub fn errors(judged: &Judged, width: usize) -> String {
    let percent = |value: f64| format!("{:.1}%", 100.0 * value);
    let line = |name: &str, [mean, median, ninth]: [f64; 3]| {
        format!("  {name:<16}  mean {:>6}  median {:>6}  p90 {:>6}\n", percent(mean), percent(median), percent(ninth))
    };
    let mut text = format!(
        "errors of {} that were not fitted (predicted over measured - 1)\n",
        count(judged.errors.len(), "row", "rows")
    );
    text += &line("predicted", Judged::sizes(&judged.errors));
    text += &line("a constant rate", Judged::sizes(&judged.constant_rate));
    text += &format!("  bias {:+.1}%", 100.0 * judged.bias());
    match judged.coverage() {
        Some(coverage) => text += &format!(", 90% intervals hold {}\n", percent(coverage)),
        None => text += ", no interval is known\n",
    }
    if judged.lines.len() <= 40 {
        let columns = ["micro-batch", "micro-batches", "measured", "predicted", "error"].map(Column::right);
        let mut table = Table::new(["model", "mesh"].map(Column::left).into_iter().chain(columns));
        for (line, error) in judged.lines.iter().zip(&judged.errors) {
            table.push(Row::new([
                one_line(&line.model),
                line.mesh.clone(),
                line.micro_batch.to_string(),
                line.micros.to_string(),
                number::seconds(line.measured_s),
                number::seconds(line.predicted_s),
                format!("{:+.1}%", 100.0 * error),
            ]));
        }
        text += &format!("\n{}", table.text(width));
    }
    text
}
