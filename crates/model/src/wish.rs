//! What a lease asks of the node that gives it, beside amounts.

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// What a task or actor would have beside amounts. Few ask for such things, so a `Need` keeps it aside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Wish {
    /// Those like it shall be on many nodes: each goes to another one than the one before.
    pub spread: bool,
    /// This node, as long as it lives and is large enough.
    pub rather: Option<NodeId>,
    /// A node's labels must be as one of these say; of two that there is room for, as the first says. None: they may be any.
    pub labels: Vec<Labels>,
}

/// What must hold of a node's labels, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Labels(pub Vec<(Box<str>, Match)>);

/// What must hold of one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Match {
    /// It is one of these.
    In(Vec<Box<str>>),
    /// It is none of these, or there is none.
    NotIn(Vec<Box<str>>),
    /// There is one.
    Exists,
    /// There is none.
    Lacks,
}

/// The name under which every node has its own id.
const NODE_ID: &str = "ray.io/node-id";

impl Labels {
    /// Whether a node with this id and these labels is such a one.
    #[must_use]
    pub fn fit(&self, id: NodeId, labels: &[(Box<str>, Box<str>)]) -> bool {
        self.0.iter().all(|(name, wanted)| {
            if &**name == NODE_ID {
                return wanted.holds(Some(&id.to_string()));
            }
            wanted.holds(labels.iter().find(|(known, _)| known == name).map(|(_, value)| &**value))
        })
    }
}

impl Match {
    fn holds(&self, value: Option<&str>) -> bool {
        let is_in = |values: &[Box<str>]| value.is_some_and(|value| values.iter().any(|one| &**one == value));
        match self {
            Self::In(values) => is_in(values),
            Self::NotIn(values) => !is_in(values),
            Self::Exists => value.is_some(),
            Self::Lacks => value.is_none(),
        }
    }
}

impl Wish {
    /// Which of the alternatives a node meets first; none: it meets none of them.
    #[must_use]
    pub fn rank(&self, id: NodeId, labels: &[(Box<str>, Box<str>)]) -> Option<usize> {
        if self.labels.is_empty() { Some(0) } else { self.labels.iter().position(|one| one.fit(id, labels)) }
    }
}

impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (name, wanted)) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            match wanted {
                Match::In(values) if values.len() == 1 => write!(f, "{name}={}", values[0])?,
                Match::In(values) => write!(f, "{name} in ({})", values.join(", "))?,
                Match::NotIn(values) => write!(f, "{name} not in ({})", values.join(", "))?,
                Match::Exists => write!(f, "{name} exists")?,
                Match::Lacks => write!(f, "no {name}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(wanted: &[(&str, Match)]) -> Labels {
        Labels(wanted.iter().map(|(name, wanted)| (Box::from(*name), wanted.clone())).collect())
    }

    #[test]
    fn a_label_is_as_asked_or_not() {
        let id = NodeId([7; 28]);
        let has = [("zone".into(), "north".into())];
        let is = |name: &str, wanted: Match| labels(&[(name, wanted)]).fit(id, &has);
        let north = || vec![Box::from("north"), Box::from("south")];
        assert!(is("zone", Match::In(north())) && !is("zone", Match::NotIn(north())));
        assert!(!is("rack", Match::In(north())) && is("rack", Match::NotIn(north())));
        assert!(is("zone", Match::Exists) && !is("rack", Match::Exists));
        assert!(is("rack", Match::Lacks) && !is("zone", Match::Lacks));
        assert!(is("ray.io/node-id", Match::In(vec![id.to_string().into()])));
    }

    #[test]
    fn the_first_alternative_that_holds_counts() {
        let wish =
            Wish { labels: vec![labels(&[("a", Match::Exists)]), labels(&[("b", Match::Exists)])], ..Wish::default() };
        let rank = |names: &[&str]| {
            let has: Vec<_> = names.iter().map(|name| (Box::from(*name), Box::from(""))).collect();
            wish.rank(NodeId([0; 28]), &has)
        };
        assert_eq!((rank(&["b", "a"]), rank(&["b"]), rank(&[])), (Some(0), Some(1), None));
        assert_eq!(Wish::default().rank(NodeId([0; 28]), &[]), Some(0));
    }
}
