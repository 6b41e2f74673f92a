//! For people: which node comes nearest to something that none can hold, and what it lacks.

use model::{Need, Quantity, Resources};

use crate::Member;

/// What stands between a node and a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The node.
    pub node: u32,
    /// Amounts that it has too little of, and how much is missing.
    pub amounts: Resources,
    /// It has not the labels.
    pub labels: bool,
}

/// The node that lacks least. None: there is no node with workers.
#[must_use]
pub fn nearest<'a>(need: &Need, nodes: impl Iterator<Item = (u32, &'a Member)>) -> Option<Lack> {
    let lacks = nodes.filter(|(_, member)| !member.is_guest).map(|(node, member)| {
        let mut amounts = Resources::default();
        for resources in [&need.to_place, &need.to_hold] {
            for (name, wanted) in resources.iter() {
                let missing = wanted.0 - member.total.amount(name).0;
                if missing > amounts.amount(name).0 {
                    amounts.set(name, Quantity(missing));
                }
            }
        }
        Lack { node, amounts, labels: member.rank(need).is_none() }
    });
    lacks.min_by_key(|lack| {
        let kinds = lack.amounts.iter().count() + usize::from(lack.labels);
        let sum = lack.amounts.iter().fold(0_i64, |sum, (_, amount)| sum.saturating_add(amount.0));
        (kinds, sum, lack.node)
    })
}

/// What a need asks for, in words.
#[must_use]
pub fn in_words(need: &Need) -> String {
    let labels = need.wish.iter().flat_map(|wish| &wish.labels).map(|labels| format!("labels {labels}"));
    let labels: Vec<String> = labels.collect();
    match labels.len() {
        0 => need.to_place.to_string(),
        _ => format!("{} on a node with {}", need.to_place, labels.join(", or ")),
    }
}

#[cfg(test)]
mod tests {
    use model::{Labels, Match, NodeId, Wish};

    use super::*;

    #[test]
    fn the_node_that_lacks_least_is_named() {
        let member = |number: u8, total: Resources| Member {
            id: NodeId([number; 28]),
            total,
            labels: vec![("zone".into(), format!("{number}").into())],
            is_guest: false,
        };
        let with_gpus = |count| {
            let mut amounts = Resources::cpus(2);
            amounts.gpu = Quantity::whole(count);
            amounts
        };
        let nodes = [(1, member(1, Resources::cpus(8))), (2, member(2, with_gpus(1)))];
        let of = |need: &Need| nearest(need, nodes.iter().map(|(node, member)| (*node, member))).unwrap();
        let lack = of(&Need::same(with_gpus(4)));
        assert_eq!((lack.node, lack.amounts.to_string()), (2, "{GPU: 3}".into()));
        let zone = Labels(vec![("zone".into(), Match::In(vec!["2".into()]))]);
        let wish = Wish { labels: vec![zone], ..Wish::default() };
        let need = Need { wish: Some(Box::new(wish)), ..Need::same(Resources::cpus(4)) };
        assert_eq!(in_words(&need), "{CPU: 4} on a node with labels zone=2");
        let lack = of(&need);
        assert!(lack.node == 1 && lack.labels && lack.amounts == Resources::default());
    }
}
