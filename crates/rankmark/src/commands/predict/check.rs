//! `predict --check PLAN`: predicts, seals, measures, and says how far off the predictions were.

use std::path::Path;

use plans::sealed::SealedPlan;
use predict::check::gates;
use predict::{Predictor, text};
use record::{SEAL, read_run, seal};

use crate::commands::Ended;
use crate::options::{LabelOptions, Output, RunOptions, Whole};
use crate::session::{self, Entry, SessionRequest};
use crate::{plan_files, screen};

/// Predicts the cases of a plan before it measures them, interleaved with some of what the profile has.
///
/// # Errors
/// When the plan has no case that can be predicted, or cannot run.
pub(super) fn run(
    predictor: &Predictor,
    path: &Path,
    (output_dir, as_json): (Option<&Path>, bool),
    entry: Entry<'_>,
) -> Ended {
    let mut plan = plan_files::load(path, &[], entry.coordinator)?.plan;
    let sealed = SealedPlan::new(predictor, &mut plan, path)?;
    let predictions = sealed.text();
    let digest = seal(&predictions);
    screen::remark(&format!("predicted {}, sha256 {digest}\n", view::number::count(sealed.count(), "case", "cases")));
    let output = Output { output_dir: output_dir.map(Path::to_owned), quiet: as_json, ..Output::default() };
    let labels = LabelOptions::noted(format!("{SEAL} {digest}"));
    let run_options = RunOptions { output, whole: Whole::labelled(labels), has_plan: true, ..RunOptions::default() };
    let request = SessionRequest { predictions: Some(&predictions), ..SessionRequest::new(&run_options, entry) };
    let ended = session::measure(&request, Some(plan))?;
    let Some(directory) = ended.directory else { return Ok(ended.code) };
    let found = sealed.judged(&read_run(&directory)?);
    let gates = gates(&found.judged, &found.regrets);
    let printed = match as_json {
        true => screen::print_json(&format!("{}\n", found.json(predictor, &digest, &gates))),
        false => screen::print(&(text::head(predictor, None) + &found.text(&gates, screen::width()))),
    }?;
    let missed = u8::from(gates.iter().any(|gate| !gate.holds));
    Ok(ended.code.max(printed).max(missed))
}
