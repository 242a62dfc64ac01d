//! Progress bars of tqdm: ` 12%|..| 60/500 [01:23<10:11, 1.39s/it, loss=0.5]`. They show whole seconds; the rate that they show is
//! smoothed over steps, so it is never the time of one.

/// What a bar shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bar<'t> {
    /// What stands before the share: `Epoch 3: `.
    pub(super) title: &'t str,
    pub(super) done: u64,
    pub(super) all: u64,
    /// Since its begin.
    pub(super) seconds: u64,
    /// Values of the program, with the bracket that ends them; empty where the bar has none.
    pub(super) values: &'t str,
}

/// The last bar of a line. An error where the line has one without its end.
pub(super) fn last(text: &str) -> Option<Result<Bar<'_>, ()>> {
    let (head, _) = text.rsplit_once("%|")?;
    let title = head.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter.is_whitespace());
    let rest = &text[head.len()..];
    let (before, behind) = rest.split_once(" [")?;
    let (done, all) = before.rsplit(|letter: char| letter == '|' || letter.is_whitespace()).next()?.split_once('/')?;
    let (done, all) = (done.parse().ok()?, all.parse().ok()?);
    let Some(end) = behind.find(']') else { return Some(Err(())) };
    let (elapsed, behind) = behind[..=end].split_once('<')?;
    let seconds = seconds(elapsed)?;
    // Time left and rate come first.
    let values = behind.splitn(3, ',').nth(2).unwrap_or_default();
    Some(Ok(Bar { title, done, all, seconds, values }))
}

/// `01:23`, `2:00:01`.
fn seconds(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let first = parts.next()?.parse().ok()?;
    let is_part = |part: &&str| part.len() == 2 && part.as_bytes()[0] < b'6';
    parts.try_fold(first, |all: u64, part| all.checked_mul(60)?.checked_add(Some(part).filter(is_part)?.parse().ok()?))
}

/// The time of a step where so many took so long between two bars, and what is said of it.
///
/// # Errors
/// When whole seconds are too coarse.
pub(super) fn step_time(steps: u64, seconds: f64) -> Result<(f64, String), String> {
    if steps == 0 || seconds < 10.0 {
        return Err(
            "progress bars have whole seconds, and less than 10 of them lie between the first and the last".to_owned()
        );
    }
    let note = format!(
        "the time of a step is that between the first and the last progress bar, in whole seconds: it may be off by \
         {:.1}%",
        100.0 / seconds
    );
    Ok((seconds / steps as f64, note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_read_whole() {
        let bar = |text| last(text).map(|bar| bar.map(|bar| (bar.title, bar.done, bar.all, bar.seconds, bar.values)));
        assert_eq!(
            bar("Steps:  12%|█▏ | 120/1000 [1:02:13<15:01,  1.02s/it, lr=1e-5, step_loss=0.1]x"),
            Some(Ok(("Steps:", 120, 1000, 3733, " lr=1e-5, step_loss=0.1]")))
        );
        assert_eq!(bar(" 12%|█▏ | 6/10 [00:13<00:01, 1.02s/it]"), Some(Ok(("", 6, 10, 13, ""))));
        assert_eq!(bar(" 12%|█▏ | 6/10 [00:13<00:0"), Some(Err(())));
        for text in [
            "6/10 [00:13<00:01]",
            " 12%|█▏ | 6 [00:13<00:01]",
            " 1%|█▏ | 6/10 [00:1<00:01]",
            " 1%|█ | 6/10 [0:99<0:01]",
        ] {
            assert_eq!(bar(text), None, "{text}");
        }
    }
}
