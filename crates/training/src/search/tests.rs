//! The search for the largest batch, against invented outcomes.

use super::*;

const HOST: Host =
    Host { spread: None, cores: 2, available_memory: || Some(1 << 30), virtualised: false, launched: None };

fn case(more: &[(&str, &str)]) -> Case {
    let mut fields = vec![("model", "mlp"), ("find_max_batch", "true")];
    fields.extend(more);
    let about = &crate::about::MEMORY;
    record::plan::from_flags(about, &fields, &[]).unwrap_or_else(|errors| panic!("{errors}")).cases.remove(0)
}

/// Searches where batches up to `real` run; gives what was tried.
fn tried(case: &Case, real: u64) -> Vec<u64> {
    let mut study = MaxBatch::for_cases(&[case], &HOST).unwrap();
    let (mut lines, mut batches) = (Vec::new(), Vec::new());
    while let [next] = study.next(&lines).as_slice() {
        let batch = next.whole("batch").unwrap();
        batches.push(batch);
        let status = if batch <= real { Status::Ok } else { Status::Skipped };
        lines.push(CaseLine::unmeasured(next, status, ""));
    }
    batches
}

#[test]
fn what_the_plan_says_is_proven_once() {
    let small = case(&[("limit", "400MiB"), ("width", "256")]);
    let [planned] = tried(&small, u64::MAX)[..] else { panic!("one try is enough where it runs") };
    let at = |batch| fits(&with_batch(&small, batch, 400 << 20), 400 << 20);
    assert!(planned > 1 && at(planned) && !at(planned + 1), "{planned}");
    // Twice the memory, more than twice the batch: what does not grow with it is paid already.
    let [larger] = tried(&case(&[("limit", "800MiB"), ("width", "256")]), u64::MAX)[..] else { panic!("one try") };
    assert!(larger > 2 * planned, "{planned} {larger}");
    let mut line = CaseLine::unmeasured(&with_batch(&small, planned, 400 << 20), Status::Ok, "");
    assert_eq!(largest(&line), Some(planned));
    line = CaseLine::unmeasured(&with_batch(&small, planned / 2, 400 << 20), Status::Ok, "");
    assert_eq!(largest(&line), None, "more would fit");
}

#[test]
fn where_the_plan_is_wrong_the_search_goes_on_between_what_ran_and_what_did_not() {
    let small = case(&[("limit", "400MiB"), ("width", "256")]);
    let planned = tried(&small, u64::MAX)[0];
    let batches = tried(&small, planned * 97 / 100);
    assert!(batches.len() > 1 && batches.len() <= TRIES, "{batches:?}");
    assert!(batches[1] < planned && batches[1] >= planned * 9 / 10, "{batches:?}: a few percent down");
    let best = batches.iter().filter(|batch| **batch <= planned * 97 / 100).max().unwrap();
    assert!(*best * 100 >= planned * 95, "{batches:?}");
}

#[test]
fn nothing_is_tried_where_not_even_one_sample_fits() {
    assert!(tried(&case(&[("limit", "50MiB")]), u64::MAX).is_empty());
    let mut silent = case(&[]);
    silent.settings.insert("find_max_batch", false.into());
    assert!(MaxBatch::for_cases(&[&silent], &HOST).is_none());
}

#[test]
fn batches_keep_their_number_of_micro_batches() {
    let pipeline =
        case(&[("limit", "400MiB"), ("width", "256"), ("ranks", "2"), ("strategy", "pipeline"), ("batch", "8")]);
    let parts = pipeline.whole("micro_batches").unwrap();
    let [batch] = tried(&pipeline, u64::MAX)[..] else { panic!("one try") };
    assert!(parts == 4 && batch % parts == 0, "{parts} {batch}");
    // One search for all batches of one group.
    let other = case(&[("limit", "400MiB"), ("width", "256"), ("batch", "2")]);
    let same = case(&[("limit", "400MiB"), ("width", "256")]);
    assert_eq!(MaxBatch::for_cases(&[&other, &same], &HOST).unwrap().searches.len(), 1);
}
