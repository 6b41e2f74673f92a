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

/// The GPUs of the node; behind them, those that bundles have set aside, each under a number of its own.
pub(crate) struct Devices {
    names: Vec<Box<str>>,
    size: Vec<i64>,
    /// Free parts of each. Copies of it serve for "what if" questions.
    pub(crate) free: Vec<i64>,
    own: u16,
    /// Of bundles that are no more.
    vacant: Vec<u16>,
}

impl Devices {
    /// As many devices as `total` counts; one without a name is called by its number.
    pub(crate) fn new(total: Quantity, names: &[Box<str>]) -> Self {
        let count = usize::try_from((total.0.max(0) + WHOLE - 1) / WHOLE).expect("a count of GPUs");
        let name = |at: usize| names.get(at).cloned().unwrap_or_else(|| at.to_string().into());
        let size: Vec<i64> = (0..count).map(|at| (total.0 - at as i64 * WHOLE).min(WHOLE)).collect();
        let own = u16::try_from(count).expect("a count of GPUs");
        Self { names: (0..count).map(name).collect(), free: size.clone(), size, own, vacant: Vec::new() }
    }

    /// The node's own.
    pub(crate) fn own(&self) -> Box<[u16]> {
        (0..self.own).collect()
    }

    pub(crate) fn sizes(&self) -> Vec<i64> {
        self.size.clone()
    }

    pub(crate) fn is_feasible(&self, among: &[u16], ask: Ask) -> bool {
        fits(&self.size, among, ask)
    }

    pub(crate) fn take(&mut self, among: &[u16], ask: Ask) -> Vec<u16> {
        take(&mut self.free, among, ask)
    }

    /// These devices, or the share of them that `ask` took, become devices of a bundle, all free.
    pub(crate) fn set_aside(&mut self, taken: &[u16], ask: Ask) -> Box<[u16]> {
        let as_one = |&of: &u16| {
            let device = self.vacant.pop().unwrap_or_else(|| {
                self.names.push("".into());
                self.size.push(0);
                self.free.push(0);
                u16::try_from(self.names.len() - 1).expect("fewer devices than u16 counts")
            });
            let at = usize::from(device);
            self.names[at] = self.names[usize::from(of)].clone();
            (self.size[at], self.free[at]) = (ask.parts(), ask.parts());
            device
        };
        taken.iter().map(as_one).collect()
    }

    /// The inverse of `set_aside`.
    pub(crate) fn put_back(&mut self, devices: &[u16]) {
        for &device in devices {
            let at = usize::from(device);
            assert_eq!(self.free[at], self.size[at], "SCHED-3: a bundle's device is put back while it is held");
            (self.size[at], self.free[at]) = (0, 0);
            self.vacant.push(device);
        }
    }

    /// Free parts of these together.
    pub(crate) fn free_among(&self, devices: &[u16]) -> i64 {
        devices.iter().map(|&device| self.free[usize::from(device)]).sum()
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

pub(crate) fn fits(free: &[i64], among: &[u16], ask: Ask) -> bool {
    let mut room = among.iter().map(|&device| free[usize::from(device)]);
    match ask {
        Ask::Nothing => true,
        Ask::Share(parts) => room.any(|room| room >= parts),
        Ask::Whole(count) => room.filter(|room| *room == WHOLE).count() >= count,
        Ask::Impossible => false,
    }
}

/// Takes what `ask` wants, which must fit.
pub(crate) fn take(free: &mut [i64], among: &[u16], ask: Ask) -> Vec<u16> {
    let room = |device: &u16| free[usize::from(*device)];
    let devices: Vec<u16> = match ask {
        Ask::Nothing | Ask::Impossible => Vec::new(),
        Ask::Share(parts) => {
            let with_room = among.iter().copied().filter(|device| room(device) >= parts);
            with_room.min_by_key(room).into_iter().collect()
        }
        Ask::Whole(count) => among.iter().copied().filter(|device| room(device) == WHOLE).take(count).collect(),
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
        assert_eq!(devices.take(&[0, 1], Ask::Share(5_000)), [0]);
        assert_eq!(devices.take(&[0, 1], Ask::Share(3_000)), [0]);
        assert!(fits(&devices.free, &[0, 1], Ask::Whole(1)) && !fits(&devices.free, &[0, 1], Ask::Whole(2)));
        assert_eq!(devices.take(&[0, 1], Ask::Share(3_000)), [1], "0.2 are left on the first: a share is never split");
    }

    #[test]
    fn one_and_a_half_gpus_fit_nowhere() {
        assert_eq!(Ask::new(Quantity(15_000)), Ask::Impossible);
        let devices = Devices::new(Quantity::whole(8), &[]);
        assert!(!devices.is_feasible(&devices.own(), Ask::new(Quantity(15_000))));
    }
}
