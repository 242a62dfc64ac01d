//! What a traced job had of a collective that a case measures: how often a step called it, and how long it took there.

/// Calls of a job, as fields of a case say them (`trace_calls` and others).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobCalls {
    /// Calls of a rank.
    pub calls: u64,
    /// Steps that they are of. None: the trace marked no steps, and they are those of the whole trace.
    pub steps: Option<u64>,
    /// Seconds of a call, without waiting for other ranks.
    pub time_s: Option<f64>,
    /// Seconds of a call, with waiting.
    pub waiting_s: Option<f64>,
    /// How many of the calls ran while another did.
    pub overlapped: u64,
}

impl JobCalls {
    /// Calls of a step; of the whole trace where it marked none.
    pub fn per_step(&self) -> f64 {
        self.calls as f64 / self.steps.unwrap_or(1).max(1) as f64
    }

    /// Seconds of a call in the trace: without waiting where that is known.
    pub fn trace_s(&self) -> Option<f64> {
        self.time_s.or(self.waiting_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_its_share_of_the_calls() {
        let calls = JobCalls { calls: 6, steps: Some(4), waiting_s: Some(2.0), ..JobCalls::default() };
        assert_eq!((calls.per_step(), calls.trace_s()), (1.5, Some(2.0)));
        let whole = JobCalls { steps: None, time_s: Some(1.0), ..calls };
        assert_eq!((whole.per_step(), whole.trace_s()), (6.0, Some(1.0)));
    }
}
