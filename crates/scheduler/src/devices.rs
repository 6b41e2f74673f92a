//! Which GPU goes to which lease.
//!
//! Whole GPUs are distinct and untouched by others; a share lies on one device, on the fullest that
//! still has room, so that whole devices stay free for those who need one.

use model::Quantity;

const WHOLE: i64 = Quantity::PARTS;

/// What a lease wants of the GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Nothing,
    /// Parts of one device.
    Share(i64),
    /// Devices of its own.
    Whole(usize),
    /// More than one and not a whole number: no set of devices is that.
    Impossible,
}

impl Ask {
    pub(crate) fn new(gpu: Quantity) -> Self {
        match gpu.0 {
            ..=0 => Self::Nothing,
            parts if parts < WHOLE => Self::Share(parts),
            parts if parts % WHOLE == 0 => Self::Whole((parts / WHOLE) as usize),
            _ => Self::Impossible,
        }
    }

    pub(crate) fn parts(self) -> i64 {
        if let Self::Share(parts) = self { parts } else { WHOLE }
    }
}

/// The GPUs of the node.
pub(crate) struct Devices {
    names: Vec<Box<str>>,
    size: Vec<i64>,
    /// Free parts of each. Copies of it serve for "what if" questions.
    pub(crate) free: Vec<i64>,
}

impl Devices {
    /// As many devices as `total` counts; one without a name is called by its number.
    pub(crate) fn new(total: Quantity, names: &[Box<str>]) -> Self {
        let count = usize::try_from((total.0.max(0) + WHOLE - 1) / WHOLE).expect("a count of GPUs");
        let name = |at: usize| names.get(at).cloned().unwrap_or_else(|| at.to_string().into());
        let size: Vec<i64> = (0..count).map(|at| (total.0 - at as i64 * WHOLE).min(WHOLE)).collect();
        Self { names: (0..count).map(name).collect(), free: size.clone(), size }
    }

    pub(crate) fn is_feasible(&self, ask: Ask) -> bool {
        fits(&self.size, ask)
    }

    pub(crate) fn take(&mut self, ask: Ask) -> Vec<u16> {
        take(&mut self.free, ask)
    }

    pub(crate) fn give(&mut self, ask: Ask, devices: &[u16]) {
        give(&mut self.free, ask, devices);
    }

    pub(crate) fn names(&self, devices: &[u16]) -> Vec<Box<str>> {
        devices.iter().map(|&device| self.names[usize::from(device)].clone()).collect()
    }

    /// Panics unless the free parts are what `held` (per lease: its ask and its devices) leaves.
    pub(crate) fn check<'a>(&self, held: impl Iterator<Item = (Ask, &'a [u16])>) {
        let mut free = self.size.clone();
        for (ask, devices) in held {
            devices.iter().for_each(|&device| free[usize::from(device)] -= ask.parts());
        }
        assert_eq!(free, self.free, "SCHED-3: devices are not held as recorded");
        assert!(free.iter().all(|parts| *parts >= 0), "SCHED-3: a device is given out twice: {free:?}");
    }
}

pub(crate) fn fits(free: &[i64], ask: Ask) -> bool {
    match ask {
        Ask::Nothing => true,
        Ask::Share(parts) => free.iter().any(|room| *room >= parts),
        Ask::Whole(count) => free.iter().filter(|room| **room == WHOLE).count() >= count,
        Ask::Impossible => false,
    }
}

/// Takes what `ask` wants, which must fit.
pub(crate) fn take(free: &mut [i64], ask: Ask) -> Vec<u16> {
    let devices: Vec<u16> = match ask {
        Ask::Nothing | Ask::Impossible => Vec::new(),
        Ask::Share(parts) => {
            let with_room = (0..free.len()).filter(|&at| free[at] >= parts);
            with_room.min_by_key(|&at| free[at]).map(|at| at as u16).into_iter().collect()
        }
        Ask::Whole(count) => (0..free.len()).filter(|&at| free[at] == WHOLE).take(count).map(|at| at as u16).collect(),
    };
    devices.iter().for_each(|&device| free[usize::from(device)] -= ask.parts());
    devices
}

pub(crate) fn give(free: &mut [i64], ask: Ask, devices: &[u16]) {
    devices.iter().for_each(|&device| free[usize::from(device)] += ask.parts());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_go_to_the_fullest_device_so_that_a_whole_one_stays_free() {
        let mut devices = Devices::new(Quantity::whole(2), &[]);
        assert_eq!(devices.take(Ask::Share(5_000)), [0]);
        assert_eq!(devices.take(Ask::Share(3_000)), [0]);
        assert!(fits(&devices.free, Ask::Whole(1)) && !fits(&devices.free, Ask::Whole(2)));
        assert_eq!(devices.take(Ask::Share(3_000)), [1], "0.2 are left on the first: a share is never split");
    }

    #[test]
    fn one_and_a_half_gpus_fit_nowhere() {
        assert_eq!(Ask::new(Quantity(15_000)), Ask::Impossible);
        assert!(!Devices::new(Quantity::whole(8), &[]).is_feasible(Ask::new(Quantity(15_000))));
    }
}
