//! At the head: which certificate each life had last, so that two who have one name are told apart. Pure.
//!
//! An answer may be lost on its way, so the certificate before is good until the last one has been seen.

use identity::Fingerprint;
use rustc_hash::FxHashMap;
use wire::session::NodeLife;

struct Given {
    last: Fingerprint,
    /// As long as the last one has not been seen.
    before: Option<Fingerprint>,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Issued(FxHashMap<NodeLife, Given>);

impl Issued {
    /// This one was given to it. `shown`: by that one it asked.
    pub(crate) fn give(&mut self, who: NodeLife, last: Fingerprint, shown: Option<Fingerprint>) {
        self.0.insert(who, Given { last, before: shown });
    }

    /// It shows this one. False: that was not its turn, so somebody else has its name.
    pub(crate) fn comes_with(&mut self, who: NodeLife, shown: Fingerprint) -> bool {
        let Some(given) = self.0.get_mut(&who) else { return false };
        if shown == given.last {
            given.before = None;
            return true;
        }
        given.before == Some(shown)
    }

    pub(crate) fn forget(&mut self, who: NodeLife) {
        self.0.remove(&who);
    }
}

#[cfg(test)]
mod tests {
    use super::Issued;
    use identity::Fingerprint;
    use wire::session::NodeLife;

    const WHO: NodeLife = NodeLife { node: 2, life: 7 };

    fn print(byte: u8) -> Fingerprint {
        Fingerprint([byte; 32])
    }

    #[test]
    fn the_certificate_before_is_good_until_the_last_one_has_been_seen() {
        let mut issued = Issued::default();
        issued.give(WHO, print(1), None);
        assert!(issued.comes_with(WHO, print(1)));
        issued.give(WHO, print(2), Some(print(1)));
        assert!(issued.comes_with(WHO, print(1)), "the answer was lost");
        assert!(issued.comes_with(WHO, print(2)));
        assert!(!issued.comes_with(WHO, print(1)), "somebody else has this one");
        assert!(issued.comes_with(WHO, print(2)), "its owner is no less its owner: what follows is not decided here");
    }

    #[test]
    fn who_asks_twice_since_the_answer_was_lost_is_no_thief() {
        let mut issued = Issued::default();
        issued.give(WHO, print(1), None);
        issued.give(WHO, print(2), Some(print(1)));
        issued.give(WHO, print(3), Some(print(1)));
        assert!(!issued.comes_with(WHO, print(2)), "it never had that one");
        assert!(issued.comes_with(WHO, print(1)) && issued.comes_with(WHO, print(3)));
    }

    #[test]
    fn a_life_that_nothing_was_given_to_has_nothing_to_show() {
        let mut issued = Issued::default();
        issued.give(WHO, print(1), None);
        assert!(!issued.comes_with(NodeLife { life: 8, ..WHO }, print(1)));
        issued.forget(WHO);
        assert!(!issued.comes_with(WHO, print(1)));
    }
}
