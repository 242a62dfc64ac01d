//! Several communicators at once: the ranks of a world in groups, each of which makes the operation among its own ranks. Rails
//! of a cluster are such groups, and tensor groups beside data groups. Cases in which one group runs alone show what the others
//! cost it.

use std::str::FromStr;

use contract::fields::problem;
use record::{About, Case, Plan};
use serde_json::Value;
use terms::{Collective, FieldError};

use super::fields::Fields;

/// The parameter with the rule.
const GROUPS: &str = "groups";
const HINT: &str = "`mod 2`, `div 2`: groups of at least two ranks, all of one size";
/// The parameter with the number of the only group that runs.
pub(super) const ALONE: &str = "alone";

/// How the group of a rank follows from its number: the words of nccl-tests' NCCL_TESTS_SPLIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    operator: Operator,
    number: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Mod,
    Div,
    And,
    Or,
}

/// Each operator: its word, and its sign.
const OPERATORS: [(Operator, &str, &str); 4] =
    [(Operator::Mod, "mod", "%"), (Operator::Div, "div", "/"), (Operator::And, "and", "&"), (Operator::Or, "or", "|")];

impl FromStr for Rule {
    type Err = ();

    /// `mod 8`, `DIV 8`, `& 0x7`, `%8`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.trim().to_ascii_lowercase();
        let cut = |word: &str| text.strip_prefix(word).map(str::to_owned);
        let read = |(operator, word, sign): &(Operator, &str, &str)| {
            let number = cut(word).or_else(|| cut(sign))?;
            let number = number.trim();
            let number = match number.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            number.ok().map(|number| Self { operator: *operator, number })
        };
        OPERATORS.iter().find_map(read).ok_or(())
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = OPERATORS.iter().find(|(operator, ..)| *operator == self.operator).map_or("", |(_, word, _)| word);
        write!(f, "{word} {}", self.number)
    }
}

impl Rule {
    /// What the ranks of a group have in common; None where the rule divides by zero.
    fn color(self, rank: u32) -> Option<u32> {
        match self.operator {
            Operator::Mod => rank.checked_rem(self.number),
            Operator::Div => rank.checked_div(self.number),
            Operator::And => Some(rank & self.number),
            Operator::Or => Some(rank | self.number),
        }
    }
}

/// The ranks of each group, ascending; groups in the order of their first ranks. All have equally many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankGroups(Vec<Vec<u32>>);

impl RankGroups {
    fn new(rule: Rule, ranks: u32) -> Result<Self, String> {
        let mut groups: Vec<(u32, Vec<u32>)> = Vec::new();
        for rank in 0..ranks {
            let color = rule.color(rank).ok_or_else(|| format!("`{rule}` divides by zero"))?;
            match groups.iter_mut().find(|(known, _)| *known == color) {
                Some((_, members)) => members.push(rank),
                None => groups.push((color, vec![rank])),
            }
        }
        let groups: Vec<Vec<u32>> = groups.into_iter().map(|(_, members)| members).collect();
        let sizes = || groups.iter().map(Vec::len);
        if let Some(single) = groups.iter().find(|members| members.len() == 1) {
            return Err(format!("`{rule}` leaves rank {} of {ranks} alone", single[0]));
        }
        if groups.len() == 1 {
            return Err(format!("`{rule}` puts all {ranks} ranks into one group"));
        }
        if sizes().min() != sizes().max() {
            let sizes: Vec<String> = sizes().map(|size| size.to_string()).collect();
            return Err(format!(
                "`{rule}` splits {ranks} ranks into groups of {} ranks: all groups must have the same size",
                sizes.join(", ")
            ));
        }
        Ok(Self(groups))
    }

    /// The groups of a case; None where all its ranks make one operation.
    pub(super) fn of_fields(fields: &Fields) -> Result<Option<Self>, FieldError> {
        let Some(text) = &fields.groups else { return Ok(None) };
        let rule = text.parse::<Rule>();
        let rule = rule.map_err(|()| problem(GROUPS, format!("`{text}` is not a rule for groups"), HINT))?;
        Self::new(rule, fields.ranks).map(Some).map_err(|what| problem(GROUPS, what, HINT))
    }

    /// How many.
    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// Ranks of each.
    pub(super) fn size(&self) -> u32 {
        self.0[0].len() as u32
    }

    /// The ranks of each.
    pub(super) fn members(&self) -> &[Vec<u32>] {
        &self.0
    }

    /// The group of a rank, and its place there.
    pub(super) fn place(&self, rank: u32) -> Option<(u32, u32)> {
        let find = |(group, members): (usize, &Vec<u32>)| {
            let place = members.iter().position(|member| *member == rank)?;
            Some((group as u32, place as u32))
        };
        self.0.iter().enumerate().find_map(find)
    }
}

/// Spells the rule in one way, and refuses what has no groups.
pub(super) fn resolve(fields: &mut Fields, by_torch: bool) -> Result<(), FieldError> {
    let Some(groups) = RankGroups::of_fields(fields)? else {
        return match fields.alone {
            None => Ok(()),
            Some(_) => {
                Err(problem(ALONE, "`alone` selects one of several groups", "add `groups`, for example `mod 2`"))
            }
        };
    };
    if let Some(rule) = fields.groups.as_ref().and_then(|text| text.parse::<Rule>().ok()) {
        fields.groups = Some(rule.to_string());
    }
    let backend = fields.backend.as_deref().and_then(comm::backend);
    let refused = |what: &str, hint: &str| Err(problem(GROUPS, what.to_owned(), hint));
    match () {
        () if by_torch => refused("PyTorch ranks do not support groups", "leave `groups` out, or use native ranks"),
        () if backend.is_some_and(|backend| backend.about().simulated) => refused(
            "a simulated backend does not model interference between groups",
            "use another `backend`: one that moves bytes",
        ),
        () if fields.op == Collective::PingPong => refused(
            "ping_pong runs between rank 0 and its peer: it does not support groups",
            "use another operation, for example send_recv",
        ),
        () if fields.alone.is_some_and(|alone| alone >= groups.count()) => {
            Err(problem(ALONE, format!("there are {} groups, numbered from 0", groups.count()), "use a smaller number"))
        }
        () => Ok(()),
    }
}

/// Adds the cases in which one group runs alone behind the one in which all run at once.
pub(super) fn complete(plan: &mut Plan, about: &About) {
    let mut cases = Vec::with_capacity(plan.cases.len());
    let mut known: std::collections::HashSet<String> = plan.cases.iter().map(|case| case.id.clone()).collect();
    for case in std::mem::take(&mut plan.cases) {
        let is_own = case.benchmark == about.name && case.skip.is_none();
        // A job's groups run as in the job: what they cost each other is another question.
        let asks = |fields: &Fields| is_own && fields.alone.is_none() && fields.trace_calls.is_none();
        let fields = Fields::of(&case).ok().filter(asks);
        let groups = fields.and_then(|fields| RankGroups::of_fields(&fields).ok().flatten());
        let alone = (0..groups.map_or(0, |groups| groups.count())).map(|group| {
            let mut alone = case.clone();
            alone.parameters.insert(ALONE.to_owned(), Value::from(group));
            contract::fields::reorder(&mut alone, about);
            alone.identify(about);
            alone
        });
        let alone: Vec<Case> = alone.filter(|case| known.insert(case.id.clone())).collect();
        cases.push(case);
        cases.extend(alone);
    }
    plan.cases = cases;
}

#[cfg(test)]
mod tests {
    use super::super::about::ABOUT;
    use super::*;

    fn groups(rule: &str, ranks: u32) -> Result<Vec<Vec<u32>>, String> {
        let rule: Rule = rule.parse().map_err(|()| "not a rule".to_owned())?;
        RankGroups::new(rule, ranks).map(|groups| groups.0)
    }

    #[test]
    fn ranks_are_divided_as_nccl_tests_does() {
        let pairs = |text| groups(text, 4).unwrap();
        for rails in ["mod 2", "MOD 2", "%2", "and 0x1", "& 1"] {
            assert_eq!(pairs(rails), [vec![0, 2], vec![1, 3]], "{rails}");
        }
        for nodes in ["div 2", "DIV 2", "/ 2", "or 1", "|0x1"] {
            assert_eq!(pairs(nodes), [vec![0, 1], vec![2, 3]], "{nodes}");
        }
        let rule: Rule = "MOD 8".parse().unwrap();
        assert_eq!(rule.to_string(), "mod 8");
        let eight = RankGroups::new(rule, 64).unwrap();
        assert_eq!((eight.count(), eight.size(), eight.place(17)), (8, 8, Some((1, 2))));
    }

    #[test]
    fn what_makes_no_groups_says_why() {
        for (rule, ranks, why) in [
            ("mod 2", 3, "leaves rank 1 of 3 alone"),
            ("div 4", 6, "6 ranks into groups of 4, 2 ranks"),
            ("div 8", 8, "all 8 ranks into one group"),
            ("mod 0", 4, "divides by zero"),
            ("2", 4, "not a rule"),
            ("mod", 4, "not a rule"),
            ("mod -1", 4, "not a rule"),
        ] {
            let refused = groups(rule, ranks).unwrap_err();
            assert!(refused.contains(why), "{rule}: {refused}");
        }
    }

    #[test]
    fn each_group_also_runs_alone_and_once() {
        let flags = [("groups", "MOD 2"), ("ranks", "4"), ("bytes", "1KiB")];
        let mut plan = record::plan::from_flags(&ABOUT, &flags, &[]).unwrap();
        complete(&mut plan, &ABOUT);
        let alone = |case: &Case| case.parameters.get(ALONE).and_then(Value::as_u64);
        assert_eq!(plan.cases.iter().map(alone).collect::<Vec<_>>(), [None, Some(0), Some(1)]);
        assert!(plan.cases.iter().all(|case| case.parameters.get(GROUPS) == Some(&Value::from("mod 2"))));
        complete(&mut plan, &ABOUT);
        assert_eq!(plan.cases.len(), 3, "a plan that is read again has them");
        let of_job = [&flags[..], &[("trace_calls", "3")]].concat();
        let mut of_job = record::plan::from_flags(&ABOUT, &of_job, &[]).unwrap();
        complete(&mut of_job, &ABOUT);
        assert_eq!(of_job.cases.len(), 1, "the groups of a traced job run at once only");
        let refused = |flags: &[(&str, &str)]| record::plan::from_flags(&ABOUT, flags, &[]).unwrap_err().to_string();
        for (flags, why) in [
            (&[("alone", "0")][..], "selects one of several groups"),
            (&[("groups", "mod 2"), ("ranks", "4"), ("alone", "2")], "there are 2 groups"),
            (&[("groups", "mod 2"), ("ranks", "4"), ("backend", "sim")], "does not model interference"),
            (&[("groups", "mod 2"), ("ranks", "4"), ("op", "ping_pong")], "ping_pong"),
            (&[("trace_s", "5us")], "describes calls in the trace of a job"),
            (&[("trace_calls", "3"), ("trace_overlapped", "4")], "than the 3 calls of the trace"),
            (&[("groups", "two"), ("ranks", "4")], "`two` is not a rule"),
        ] {
            assert!(refused(flags).contains(why), "{flags:?}: {}", refused(flags));
        }
    }
}
