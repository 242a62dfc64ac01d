//! Every caveat about a measurement, as one enum: one word each, shown alike in terminal, record and report.

terms::named! {
    /// A reason to read a number with care.
    pub enum Caveat("caveat") {
        /// The size did not divide; it was rounded down, and `bytes_requested` keeps what was asked.
        SizeRounded = "size_rounded",
        /// More ranks than cores: times include waiting for a core.
        Oversubscribed = "oversubscribed",
        /// The printed interval is wider than the target.
        CiAboveTarget = "ci_above_target",
        /// Further trials are to follow, or were to follow when the run was ended or killed.
        Preliminary = "preliminary",
        /// The run ended before trials spanned eight seconds.
        ShortSpan = "short_span",
        /// A quick look: three trials right after one another, without an interval.
        QuickLook = "quick_look",
        /// The mean is far from the median.
        MeanDiffers = "mean_differs",
        /// Trials lie on two or three levels, for some time on each: the median mixes states of the machine.
        TwoLevels = "two_levels",
        /// No loop was found that is as fast as the operation itself.
        LimitNotFound = "limit_not_found",
        /// Ranks are on several hosts, and the speed of a link between them is not known.
        LinkSpeedUnknown = "link_speed_unknown",
        /// Warm-up ended by its budget, not because times had become steady.
        WarmUpNotConverged = "warm_up_not_converged",
        /// Times drifted during the case.
        Drift = "drift",
        /// The machine's noise (barrier latency, steal time, clock) moved between before and after.
        Noisy = "noisy",
        /// The hypervisor took the processor away during the case.
        StolenTime = "stolen_time",
        /// Ranks were switched out of their cores often.
        ContextSwitches = "context_switches",
        /// The processor's clock was held down.
        Throttled = "throttled",
        /// The container's quota of processor time stopped ranks.
        QuotaReached = "quota_reached",
        /// Programs other than the ranks used the cores.
        OtherPrograms = "other_programs",
        /// One rank is last more often than chance allows, and others wait for it.
        SlowRank = "slow_rank",
        /// Isolated mode: a rank missed the agreed instant in some samples.
        MissedStart = "missed_start",
        /// Isolated mode over several hosts: ranks start together only as far as their clocks are known, which is a tenth of
        /// the time or worse.
        StartsApart = "starts_apart",
        /// A sample is too short for the clock even at the largest number of calls.
        ClockResolution = "clock_resolution",
        /// The case's ranks died while other cases ran, and were started again.
        Restarted = "restarted",
        /// Slowed down to a given link.
        Paced = "paced",
        /// Ranks slept instead of computing.
        ComputeAsleep = "compute_asleep",
        /// Computed by a model; never measured.
        Simulated = "simulated",
        /// The check of a simulated case compared a part of a call's result.
        PartlyChecked = "partly_checked",
        /// A program other than this one measured it.
        Imported = "imported",
        /// A fault was injected on request.
        Injected = "injected",
        /// PyTorch's bf16: its autocast, not ours.
        Autocast = "autocast",
        /// In a container or a virtual machine that changes a limit.
        Virtualised = "virtualised",
        /// The case's device was a stand-in in memory of the host.
        Emulated = "emulated",
        /// Several ranks worked on one device.
        SharedDevice = "shared_device",
        /// All ranks of a host could run on one core only, though the host has more.
        OneCore = "one_core",
    }
}

impl Caveat {
    /// The long form, for the report.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::SizeRounded => "the requested size does not divide evenly; it was rounded down, see bytes_requested",
            Self::Oversubscribed => {
                "more ranks than cores: times include waiting for a core, and say nothing about the transport"
            }
            Self::OneCore => {
                "all ranks of a host may run on one core only, though it has more: an affinity (taskset) or a control group (cgroup cpuset) binds them there; times include waiting for that core. `taskset -pc PID` shows it; run without taskset, or ask the scheduler or the container for more cores (--cpus-per-task, --cpuset-cpus)"
            }
            Self::CiAboveTarget => "the 95% interval of the median over the run's own span is wider than the target",
            Self::Preliminary => "the case does not have all its trials: the run still goes on, or it ended early",
            Self::ShortSpan => {
                "fewer than six trials, or a span of less than eight seconds: changes of the machine within seconds are not seen"
            }
            Self::QuickLook => "a quick look: three consecutive trials, without an interval",
            Self::MeanDiffers => "the mean is more than 20% off the median: some calls take much longer",
            Self::TwoLevels => {
                "the machine was at different levels of speed during the case, for some time at each: `levels` has their times, and the median depends on how long each lasted"
            }
            Self::LimitNotFound => {
                "no share of a limit is shown: the operation is faster than every measured form of its limit, too few trials measured it, or the limit is beyond what this machine can do"
            }
            Self::LinkSpeedUnknown => {
                "no share of a limit is shown: ranks are on several hosts, and the kernel of one of them does not tell the speed of any network interface (/sys/class/net/*/speed)"
            }
            Self::WarmUpNotConverged => "warm-up used its whole budget before times converged",
            Self::Drift => "times drifted during the case: the median depends on how long it ran",
            Self::Noisy => "barrier latency changed during the case: something else ran here",
            Self::StolenTime => "the hypervisor took processor time during the case",
            Self::ContextSwitches => "ranks often lost their core to other processes during the case",
            Self::Throttled => "the processor throttled its clock during the case",
            Self::QuotaReached => "the container's quota of processor time stopped ranks during the case",
            Self::OtherPrograms => "other programs used more than 10% of the time of all cores during the case",
            Self::SlowRank => "one rank arrives last more often than chance allows, and the others wait for it",
            Self::MissedStart => "a rank missed the agreed starting instant in some samples",
            Self::StartsApart => {
                "the starts of ranks on different hosts may differ by more than a tenth of the time: clocks are not known better"
            }
            Self::ClockResolution => "samples are too short for the clock's resolution",
            Self::Restarted => "ranks died while other cases ran, and were started again",
            Self::Paced => "the backend was slowed down to a given link",
            Self::Emulated => {
                "the device was a stand-in in this host's memory: results are checked, times say nothing about a GPU"
            }
            Self::SharedDevice => "several ranks worked on one device: times include waiting for each other there",
            Self::ComputeAsleep => {
                "ranks slept for a given time instead of computing: only exchanges and waits are real"
            }
            Self::Simulated => "times were computed by a model and never measured",
            Self::PartlyChecked => {
                "the check compared a part of a call's result: `checked` says how many elements, of how many that ranks get"
            }
            Self::Imported => "another program measured it: its statistic, no samples, and the checks that it made",
            Self::Injected => "a fault was injected on request",
            Self::Autocast => {
                "torch's autocast: products in bf16, other operations partly in f32; native ranks use bf16 for all"
            }
            Self::Virtualised => "a container or virtual machine changes a limit of this machine",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use terms::Named;

    use super::*;

    /// Terminal, record and report take the word and the explanation from here, so two caveats never look alike.
    #[test]
    fn each_caveat_has_a_word_and_an_explanation_of_its_own() {
        let words: HashSet<&str> = Caveat::ALL.iter().map(|caveat| caveat.name()).collect();
        let explanations: HashSet<&str> = Caveat::ALL.iter().map(|caveat| caveat.explanation()).collect();
        assert_eq!((words.len(), explanations.len()), (Caveat::ALL.len(), Caveat::ALL.len()));
        assert!(words.iter().all(|word| word.parse::<Caveat>().is_ok_and(|caveat| caveat.name() == *word)));
    }
}
