//! Schedulers: numbers in, decisions out. Names of trials, configurations and files stay in Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tune::schedule::pbt::{Advice, Change, Gene};
use tune::schedule::{Decision, Mode, Trial, asha, hyperband, median, pb2, pbt};

/// What an event means for others: (decision, whom to stop, who may run again).
type Outcome = (&'static str, Vec<Trial>, Vec<Trial>);

/// What is done with one trial: (trial, save it, whom it goes on from and the exploit's number).
type Step = (Trial, bool, Option<(Trial, u64)>);

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Asha>()?;
    module.add_class::<Hyperband>()?;
    module.add_class::<Median>()?;
    module.add_class::<Pbt>()?;
    module.add_class::<Pb2>()
}

/// `state` and `of_state`: a scheduler as bytes and back, for pickles.
macro_rules! scheduler {
    ($name:ident, $inner:ty, { $($methods:item)* }) => {
        #[pyclass(module = "eagleray._native.tune")]
        pub(crate) struct $name {
            inner: $inner,
        }

        #[pymethods]
        impl $name {
            fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
                let bytes = postcard::to_stdvec(&self.inner).map_err(|error| PyValueError::new_err(error.to_string()))?;
                Ok(PyBytes::new(py, &bytes))
            }

            #[staticmethod]
            fn of_state(state: &[u8]) -> PyResult<Self> {
                let inner = postcard::from_bytes(state).map_err(|error| PyValueError::new_err(error.to_string()))?;
                Ok(Self { inner })
            }

            $($methods)*
        }
    };
}

scheduler!(Asha, asha::Asha, {
    #[new]
    #[pyo3(signature = (*, mode, max_t, grace_period, reduction_factor, brackets, stop_last_trials, seed))]
    #[expect(clippy::too_many_arguments, reason = "all by name, as the user gives them")]
    fn new(
        mode: &str,
        max_t: f64,
        grace_period: f64,
        reduction_factor: f64,
        brackets: usize,
        stop_last_trials: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let mode = mode_of(mode)?;
        let options = asha::Options { mode, max_t, grace_period, reduction_factor, brackets, stop_last_trials, seed };
        Ok(Self { inner: asha::Asha::new(options) })
    }

    fn add(&mut self) -> Trial {
        self.inner.add()
    }

    fn result(&mut self, trial: Trial, t: f64, value: f64) -> &'static str {
        word(self.inner.result(trial, t, value))
    }

    fn complete(&mut self, trial: Trial, t: f64, value: f64) {
        self.inner.complete(trial, t, value);
    }

    fn stopped(&self) -> u64 {
        self.inner.stopped()
    }

    fn bracket(&self, trial: Trial) -> usize {
        self.inner.bracket(trial)
    }

    fn cutoffs(&self) -> Vec<Vec<asha::Cutoff>> {
        self.inner.cutoffs()
    }
});

scheduler!(Hyperband, hyperband::Hyperband, {
    #[new]
    #[pyo3(signature = (*, mode, max_t, reduction_factor, stop_last_trials, largest_first))]
    fn new(
        mode: &str,
        max_t: u64,
        reduction_factor: f64,
        stop_last_trials: bool,
        largest_first: bool,
    ) -> PyResult<Self> {
        let filling = if largest_first { hyperband::Filling::LargestFirst } else { hyperband::Filling::SmallestFirst };
        let mode = mode_of(mode)?;
        let options = hyperband::Options { mode, max_t, eta: reduction_factor, stop_last_trials, filling };
        Ok(Self { inner: hyperband::Hyperband::new(options) })
    }

    fn add(&mut self) -> Trial {
        self.inner.add()
    }

    fn result(&mut self, trial: Trial, t: f64, value: f64) -> Outcome {
        outcome(self.inner.result(trial, t, value))
    }

    fn end(&mut self, trial: Trial) -> Outcome {
        outcome(self.inner.end(trial))
    }

    fn settle(&mut self) -> Outcome {
        outcome(self.inner.settle())
    }

    fn runnable(&self, count: usize) -> Vec<Trial> {
        self.inner.runnable(count)
    }

    fn milestone(&self, trial: Trial) -> u64 {
        self.inner.milestone(trial)
    }

    fn stopped(&self) -> u64 {
        self.inner.stopped()
    }

    /// For each bracket: its band, how many trials its round takes, where that ends, its progress, all its trials.
    fn brackets(&self) -> Vec<(u32, usize, u64, f64, Vec<Trial>)> {
        let views = self.inner.views().into_iter();
        views.map(|view| (view.band, view.shape.size, view.shape.milestone, view.progress, view.members)).collect()
    }
});

scheduler!(Median, median::Median, {
    #[new]
    #[pyo3(signature = (*, mode, grace_period, min_samples_required, min_time_slice, hard_stop))]
    fn new(
        mode: &str,
        grace_period: f64,
        min_samples_required: usize,
        min_time_slice: f64,
        hard_stop: bool,
    ) -> PyResult<Self> {
        let mode = mode_of(mode)?;
        let options = median::Options { mode, grace_period, min_samples_required, min_time_slice, hard_stop };
        Ok(Self { inner: median::Median::new(options) })
    }

    fn add(&mut self) -> Trial {
        self.inner.add()
    }

    /// The decision, or None if too few have come as far.
    fn result(&mut self, trial: Trial, t: f64, value: f64) -> Option<&'static str> {
        match self.inner.result(trial, t, value) {
            median::Verdict::Decided(decision) => Some(word(decision)),
            median::Verdict::TooFew => None,
        }
    }

    fn make_room(&mut self, trial: Trial, t: f64) -> &'static str {
        word(self.inner.make_room(trial, t))
    }

    fn complete(&mut self, trial: Trial, t: f64, value: f64) {
        self.inner.complete(trial, t, value);
    }

    fn stopped(&self) -> usize {
        self.inner.stopped()
    }

    fn is_judged(&self, trial: Trial) -> bool {
        self.inner.is_judged(trial)
    }
});

scheduler!(Pbt, pbt::Pbt, {
    #[new]
    #[pyo3(signature = (*, mode, perturbation_interval, burn_in_period, quantile_fraction, resample_probability, perturbation_factors, synch, seed))]
    #[expect(clippy::too_many_arguments, reason = "all by name, as the user gives them")]
    fn new(
        mode: &str,
        perturbation_interval: f64,
        burn_in_period: f64,
        quantile_fraction: f64,
        resample_probability: f64,
        perturbation_factors: Vec<f64>,
        synch: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let options = pbt::Options {
            mode: mode_of(mode)?,
            perturbation_interval,
            burn_in_period,
            quantile_fraction,
            resample_probability,
            perturbation_factors,
            is_synchronous: synch,
            seed,
        };
        Ok(Self { inner: pbt::Pbt::new(options) })
    }

    fn add(&mut self) -> Trial {
        self.inner.add()
    }

    /// What is to be done, in a word ("CONTINUE", "LOOK", "WAIT", "ROUND"), and with whom.
    fn result(&mut self, trial: Trial, t: f64, value: f64) -> (&'static str, Vec<Step>) {
        match self.inner.result(trial, t, value) {
            Advice::Continue => ("CONTINUE", Vec::new()),
            Advice::Look(one) => ("LOOK", vec![step(&one)]),
            Advice::Wait => ("WAIT", Vec::new()),
            Advice::Round(all) => ("ROUND", all.iter().map(step).collect()),
        }
    }

    fn end(&mut self, trial: Trial) -> Vec<Step> {
        self.inner.end(trial).unwrap_or_default().iter().map(step).collect()
    }

    fn exploited(&mut self, trial: Trial, donor: Trial) {
        self.inner.exploited(trial, donor);
    }

    fn turn(&self, trial: Trial) -> Option<f64> {
        self.inner.turn(trial)
    }

    fn score(&self, trial: Trial) -> Option<f64> {
        self.inner.score(trial)
    }

    fn quantiles(&self) -> (Vec<Trial>, Vec<Trial>) {
        self.inner.quantiles()
    }

    /// A gene is the length of its list and the place in it; None is a number, and a length of 0 what cannot be multiplied. A change is a word ("pick", "left", "right", "resample",
    /// "scale") with a number: the place in the list, the seed or the factor.
    fn explore(
        &self,
        py: Python<'_>,
        draw: u64,
        genes: Vec<Option<(usize, Option<usize>)>>,
    ) -> PyResult<Vec<(&'static str, Py<PyAny>)>> {
        let gene = |gene: Option<(usize, Option<usize>)>| match gene {
            None => Gene::Drawn,
            Some((0, _)) => Gene::Word,
            Some((count, at)) => Gene::Listed { count, at },
        };
        let genes: Vec<Gene> = genes.into_iter().map(gene).collect();
        self.inner
            .explore(draw, &genes)
            .into_iter()
            .map(|change| {
                Ok(match change {
                    Change::Pick(to) => ("pick", to.into_pyobject(py)?.into_any().unbind()),
                    Change::Shift { to, is_right: false } => ("left", to.into_pyobject(py)?.into_any().unbind()),
                    Change::Shift { to, is_right: true } => ("right", to.into_pyobject(py)?.into_any().unbind()),
                    Change::Resample(seed) => ("resample", seed.into_pyobject(py)?.into_any().unbind()),
                    Change::Scale(factor) => ("scale", factor.into_pyobject(py)?.into_any().unbind()),
                })
            })
            .collect()
    }

    fn birth(&self, trial: Trial) -> u64 {
        self.inner.birth(trial)
    }
});

scheduler!(Pb2, pb2::Pb2, {
    #[new]
    fn new(bounds: Vec<(f64, f64)>, seed: u64) -> Self {
        Self { inner: pb2::Pb2::new(bounds, seed) }
    }

    fn observe(&mut self, trial: Trial, t: f64, values: Vec<f64>, score: f64) {
        self.inner.observe(trial, t, &values, score);
    }

    fn propose(&self, py: Python<'_>, donor: Trial, draw: u64) -> Vec<f64> {
        crate::door::enter(py, || self.inner.propose(donor, draw))
    }

    fn accepted(&mut self, trial: Trial, donor: Trial, values: Vec<f64>) {
        self.inner.accepted(trial, donor, &values);
    }
});

fn mode_of(word: &str) -> PyResult<Mode> {
    match word {
        "min" => Ok(Mode::Min),
        "max" => Ok(Mode::Max),
        _ => Err(PyValueError::new_err(format!("`mode` must be 'min' or 'max', not '{word}'"))),
    }
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Continue => "CONTINUE",
        Decision::Pause => "PAUSE",
        Decision::Stop => "STOP",
    }
}

fn outcome(outcome: hyperband::Outcome) -> Outcome {
    (word(outcome.decision), outcome.stop, outcome.resume)
}

fn step(step: &pbt::Step) -> Step {
    (step.trial, step.save, step.exploit.map(|exploit| (exploit.donor, exploit.draw)))
}
