//! Which charts a section of the report has: those that its benchmark declares, its own, and drift over time.

use view::{AS_IMPORTED, ChartSpec, NamedChart, declared_charts, told_apart};

use crate::study::Operation;
use crate::words::damage::picture_banner;
use crate::{Run, words::drift, words::imported, words::origin};

/// The charts that a page or a document shows of one section: a single value is in its table, too.
pub(crate) fn shown(run: &Run, operation: &Operation) -> Vec<NamedChart> {
    let mut charts = of_operation(run, operation);
    charts.retain(|chart| !is_one_point(&chart.spec));
    charts
}

/// The charts of one section.
pub(crate) fn of_operation(run: &Run, operation: &Operation) -> Vec<NamedChart> {
    let mut charts = declared_charts(operation);
    for drift::Long { configuration, point, samples } in drift::charted(run, operation) {
        let spec = drift::chart(operation, &configuration.label, configuration.style, point.case, samples);
        let stem = operation.stem.and("drift").and(point.case.id.as_str());
        charts.push(NamedChart { stem, spec });
    }
    charts.extend(run.views.for_section(operation).map(|view| view.charts(operation)).unwrap_or_default());
    charts.extend(view::roofline::chart(operation));
    told_apart(&mut charts);
    let origin = origin::lines(run, operation);
    let statistic = imported::statistic(run);
    for chart in &mut charts {
        chart.spec.origin.clone_from(&origin);
        chart.spec.banner = picture_banner(run, chart.spec.banner.take());
        if let Some(statistic) = statistic.as_ref().filter(|_| chart.spec.note == AS_IMPORTED) {
            chart.spec.note = format!("Points: {statistic}, as the imported file gives it, without intervals.");
        }
    }
    charts
}

/// Whether a chart has one value alone.
fn is_one_point(spec: &ChartSpec) -> bool {
    let whole = spec.stacks.is_empty() && spec.lanes.is_none() && spec.waterfall.is_none() && spec.matrix.is_none();
    whole && spec.series.iter().map(|series| series.points.len()).sum::<usize>() <= 1
}
