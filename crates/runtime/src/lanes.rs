//! Calls that came in and have not started, by the group of methods that they are for: a group that is full holds up no other.

use std::collections::VecDeque;

use crate::execute::Incoming;

/// One queue per group. All but actors with groups of methods have the default one only.
#[derive(Default)]
pub(crate) struct Lanes {
    default: VecDeque<Incoming>,
    /// Group one is the first.
    others: Vec<VecDeque<Incoming>>,
}

impl Lanes {
    #[inline]
    pub(crate) fn push(&mut self, incoming: Incoming) {
        match usize::from(incoming.template.group) {
            0 => self.default.push_back(incoming),
            group => {
                if self.others.len() < group {
                    self.others.resize_with(group, VecDeque::new);
                }
                self.others[group - 1].push_back(incoming);
            }
        }
    }

    #[inline]
    pub(crate) fn front(&self, group: u16) -> Option<&Incoming> {
        match usize::from(group) {
            0 => self.default.front(),
            group => self.others.get(group - 1)?.front(),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self, group: u16) -> Option<Incoming> {
        match usize::from(group) {
            0 => self.default.pop_front(),
            group => self.others.get_mut(group - 1)?.pop_front(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Incoming> {
        self.default.iter().chain(self.others.iter().flatten())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Incoming> {
        self.default.iter_mut().chain(self.others.iter_mut().flatten())
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Incoming) -> bool) {
        self.default.retain(&mut keep);
        self.others.iter_mut().for_each(|lane| lane.retain(&mut keep));
    }

    pub(crate) fn retain_mut(&mut self, mut keep: impl FnMut(&mut Incoming) -> bool) {
        self.default.retain_mut(&mut keep);
        self.others.iter_mut().for_each(|lane| lane.retain_mut(&mut keep));
    }

    pub(crate) fn take(&mut self) -> impl Iterator<Item = Incoming> + use<> {
        let Self { default, others } = std::mem::take(self);
        default.into_iter().chain(others.into_iter().flatten())
    }
}
