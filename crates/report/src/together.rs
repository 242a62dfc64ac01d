//! A comparison of records as plain data: this crate judges no records, so the program that does hands over what it found.

/// What the comparison with the base says of one other record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgainstBase {
    /// better, worse, same, cannot tell; empty where the records have nothing in common.
    pub verdict: String,
    /// The verdict in one sentence that begins with its word.
    pub sentence: String,
    /// The largest change with its interval; empty where there is none.
    pub largest: String,
    /// What must be known before any figure is read.
    pub warnings: Vec<String>,
    /// Cases of both records, the most important first.
    pub cases: Vec<CaseAgainstBase>,
    /// What the verdicts rest on.
    pub notes: Vec<String>,
    /// Names of the cases that only the base has, and of those that only the other record has.
    pub lone: [Vec<String>; 2],
    /// The cases of the base and of the other record as they were compared, such as in a state of the machine that both saw,
    /// where that is not as their records have them.
    pub lines: [Vec<record::CaseLine>; 2],
    /// What sets the records apart, apart from results.
    pub differences: Vec<Differing>,
}

/// One case of both records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaseAgainstBase {
    /// Identity of the case in the base: the same case in the comparison with another record.
    pub id: String,
    /// What it is called.
    pub label: String,
    /// The value in the base and in the other record, or how the case ended.
    pub values: [String; 2],
    /// Other over base.
    pub ratio: Option<f64>,
    /// The interval of the ratio.
    pub interval: Option<[f64; 2]>,
    /// Whether the interval needs more trials than there are, and rests on a distribution: marked with `*`.
    pub extrapolated: bool,
    /// better, worse, same, cannot tell; `-` where there is none.
    pub verdict: String,
}

/// A field that differs between two records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differing {
    /// machine, plan, versions, environment.
    pub topic: String,
    /// The field.
    pub name: String,
    /// Value of the field in the base, where there is one.
    pub base: Option<String>,
    /// Value of the field in the other record.
    pub new: Option<String>,
}

/// What is said where no difference is known. Of what another program measured, little but its figures is known.
pub fn nothing_differs(imported: bool) -> &'static str {
    if imported {
        "Nothing is known to differ: another program measured this, and what its file does not name may differ."
    } else {
        "Machine, plan, versions and environment are equal."
    }
}
