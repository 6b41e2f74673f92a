//! Networks that remember: what is seen goes through a layer with memory before actions are chosen and states are valued.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::dist::Dist;
use crate::nn::{Activation, Gain, ImageSpec, Inputs, Layout, Lstm, LstmTape, Net, Real, Sequences, Start, Tape};
use crate::policy::{Choice, Chosen, Memory, Policy};
use crate::space::Acted;

/// What kind of networks these are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecurrentSpec {
    /// Numbers per observation.
    pub observed: usize,
    /// What is chosen.
    pub acted: Acted,
    /// Sizes of the hidden layers before the memory.
    pub hiddens: Vec<usize>,
    /// What hidden layers do with their sums.
    pub activation: Activation,
    /// Cells of the memory.
    pub cells: usize,
    /// Steps over which gradients flow back.
    pub steps_max: usize,
    /// Whether deviations are parameters of their own instead of the network's outputs.
    pub free_log_std: bool,
    /// If an observation is a picture: how it is looked at before the hidden layers.
    #[serde(default)]
    pub image: Option<ImageSpec>,
}

/// The networks of one policy.
#[derive(Clone, Debug)]
pub struct RecurrentNet {
    spec: RecurrentSpec,
    layout: Layout,
    dist: Dist,
    encoder: Option<Net>,
    lstm: Lstm,
    chooses: Net,
    values: Net,
    log_std: Option<Range<usize>>,
}

/// What came out on the way forward, and room for the way back.
#[derive(Clone, Debug, Default)]
pub struct RecurrentTape<T> {
    encoder: Tape<T>,
    lstm: LstmTape<T>,
    chooses: Tape<T>,
    values: Tape<T>,
    inputs: Vec<T>,
    of_means: Vec<T>,
    of_memory: Vec<T>,
    of_encoded: Vec<T>,
}

/// Steps of sequences side by side, by step first.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a, T> {
    /// What is seen.
    pub observed: &'a [T],
    /// What each sequence begins with.
    pub states: &'a [T],
    /// Of each row: whether an episode begins with it.
    pub begins: &'a [bool],
}

impl<'a, T> Steps<'a, T> {
    fn sequences(self) -> Sequences<'a, T> {
        Sequences { states: self.states, begins: self.begins }
    }
}

impl RecurrentNet {
    /// Plans the networks.
    #[must_use]
    pub fn new(spec: RecurrentSpec) -> Self {
        let mut layout = Layout::default();
        let dist = Dist::of(&spec.acted);
        let is_free = spec.free_log_std && dist.deviations() > 0;
        let seen = Inputs::of(spec.observed, spec.image.as_ref());
        let encoder = (!spec.hiddens.is_empty() || spec.image.is_some())
            .then(|| Net::new(&mut layout, "encoder", seen, &spec.hiddens, spec.activation, None));
        let encoded = encoder.as_ref().map_or(spec.observed, Net::outputs);
        let lstm = Lstm::new(&mut layout, "lstm", encoded, spec.cells);
        let chosen = if is_free { dist.inputs() - dist.deviations() } else { dist.inputs() };
        let mut head = |name: &str, size: usize, gain: Gain| {
            Net::new(&mut layout, name, lstm.outputs(), &[], Activation::Linear, Some((size, gain)))
        };
        let chooses = head("pi", chosen, Gain::POLICY);
        let values = head("vf", 1, Gain::VALUE);
        let log_std = is_free.then(|| layout.add("log_std".into(), &[dist.deviations()]));
        Self { spec, layout, dist, encoder, lstm, chooses, values, log_std }
    }

    /// What kind of networks these are.
    #[must_use]
    pub fn spec(&self) -> &RecurrentSpec {
        &self.spec
    }

    /// Where the parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What chooses from the outputs.
    #[must_use]
    pub fn dist(&self) -> &Dist {
        &self.dist
    }

    /// Numbers per state of the memory.
    #[must_use]
    pub fn state(&self) -> usize {
        self.lstm.state()
    }

    /// Parameters before training.
    #[must_use]
    pub fn init<T: Real>(&self, chance: &mut Chance) -> Vec<T> {
        let mut parameters = vec![T::ZERO; self.layout.len()];
        self.encoder.iter().for_each(|net| net.init(&mut parameters, Start::Orthogonal, chance));
        self.lstm.init(&mut parameters, chance);
        [&self.chooses, &self.values].into_iter().for_each(|net| net.init(&mut parameters, Start::Orthogonal, chance));
        parameters
    }

    /// Computes what is chosen from and what states are worth, for these steps.
    pub fn forward<T: Real>(&self, parameters: &[T], steps: Steps<'_, T>, tape: &mut RecurrentTape<T>) {
        let encoded = match &self.encoder {
            Some(encoder) => encoder.forward(parameters, steps.observed, &mut tape.encoder),
            None => steps.observed,
        };
        self.lstm.forward(parameters, encoded, steps.sequences(), &mut tape.lstm);
        self.values.forward(parameters, tape.lstm.outputs(), &mut tape.values);
        let outputs = self.chooses.forward(parameters, tape.lstm.outputs(), &mut tape.chooses);
        tape.inputs.clear();
        let Some(log_std) = &self.log_std else { return tape.inputs.extend_from_slice(outputs) };
        for said in outputs.chunks_exact(self.dist.inputs() - self.dist.deviations()) {
            tape.inputs.extend_from_slice(said);
            tape.inputs.extend_from_slice(&parameters[log_std.clone()]);
        }
    }

    /// What is chosen from, of the last way forward.
    #[must_use]
    pub fn inputs_of<'a, T>(&self, tape: &'a RecurrentTape<T>) -> &'a [T] {
        &tape.inputs
    }

    /// What the rows are worth, of the last way forward.
    #[must_use]
    pub fn values_of<'a, T>(&self, tape: &'a RecurrentTape<T>) -> &'a [T] {
        self.values.outputs_of(&tape.values)
    }

    /// Adds to `gradients` those of the parameters, given those of what is chosen from and of the values, for the steps of the last `forward`.
    pub fn backward<T: Real>(
        &self,
        parameters: &[T],
        steps: Steps<'_, T>,
        tape: &mut RecurrentTape<T>,
        (of_inputs, of_values): (&[T], &[T]),
        gradients: &mut [T],
    ) {
        let RecurrentTape { encoder, lstm, chooses, values, of_means, of_memory, of_encoded, .. } = tape;
        of_means.clear();
        match &self.log_std {
            None => of_means.extend_from_slice(of_inputs),
            Some(log_std) => {
                let of_log_std = &mut gradients[log_std.clone()];
                for row in of_inputs.chunks_exact(self.dist.inputs()) {
                    let (said, logs) = row.split_at(row.len() - self.dist.deviations());
                    of_means.extend_from_slice(said);
                    of_log_std.iter_mut().zip(logs).for_each(|(sum, log)| *sum += *log);
                }
            }
        }
        of_memory.clear();
        of_memory.resize(lstm.outputs().len(), T::ZERO);
        self.chooses.backward(parameters, lstm.outputs(), chooses, of_means, gradients, Some(of_memory));
        self.values.backward(parameters, lstm.outputs(), values, of_values, gradients, Some(of_memory));
        let encoded = self.encoder.as_ref().map_or(steps.observed, |net| net.outputs_of(encoder));
        of_encoded.clear();
        of_encoded.resize(encoded.len(), T::ZERO);
        let into = (&mut *gradients, &mut of_encoded[..]);
        self.lstm.backward((parameters, encoded), steps.sequences(), lstm, of_memory, into);
        if let Some(net) = &self.encoder {
            net.backward(parameters, steps.observed, encoder, of_encoded, gradients, None);
        }
    }
}

/// Networks that remember, as a policy to act by.
pub struct RecurrentPolicy {
    net: RecurrentNet,
    tape: RecurrentTape<f32>,
    /// Of each environment.
    states: Vec<f32>,
}

impl RecurrentPolicy {
    /// Acts by these networks.
    #[must_use]
    pub fn new(net: RecurrentNet) -> Self {
        Self { net, tape: RecurrentTape::default(), states: Vec::new() }
    }
}

impl RecurrentPolicy {
    /// One step of each row, from what it remembers.
    fn step(&mut self, parameters: &[f32], observed: &[f32]) {
        let (net, rows) = (&self.net, observed.len() / self.net.spec.observed);
        // Rows that nobody has told a state of remember nothing.
        self.states.resize(rows * net.state(), 0.0);
        let steps = Steps { observed, states: &self.states, begins: &vec![false; rows] };
        net.forward(parameters, steps, &mut self.tape);
        net.lstm.states_of(&self.tape.lstm, &mut self.states);
    }
}

impl Policy for RecurrentPolicy {
    fn layout(&self) -> &Layout {
        &self.net.layout
    }

    fn observed(&self) -> usize {
        self.net.spec.observed
    }

    fn actions(&self) -> usize {
        self.net.dist.actions()
    }

    fn init(&self, chance: &mut Chance) -> Vec<f32> {
        self.net.init(chance)
    }

    fn act(&mut self, parameters: &[f32], observed: &[f32], choice: Choice, chance: &mut Chance, into: Chosen<'_>) {
        self.step(parameters, observed);
        let (net, dist) = (&self.net, &self.net.dist);
        let inputs = net.inputs_of(&self.tape);
        into.inputs.extend_from_slice(inputs);
        for (row, action) in inputs.chunks_exact(dist.inputs()).zip(into.actions.chunks_exact_mut(dist.actions())) {
            into.logp.push(match choice {
                Choice::Best => dist.best(row, action),
                Choice::Drawn | Choice::Astray(_) => dist.sample(row, chance, action),
            });
        }
        into.values.extend_from_slice(net.values_of(&self.tape));
    }

    fn told(&mut self, parameters: &[f32], observed: &[f32], into: Chosen<'_>) {
        self.step(parameters, observed);
        let (net, dist) = (&self.net, &self.net.dist);
        let inputs = net.inputs_of(&self.tape);
        into.inputs.extend_from_slice(inputs);
        for (row, action) in inputs.chunks_exact(dist.inputs()).zip(into.actions.chunks_exact(dist.actions())) {
            into.logp.push(dist.terms(row, action, row).logp);
        }
        into.values.extend_from_slice(net.values_of(&self.tape));
    }

    fn values(&mut self, parameters: &[f32], observed: &[f32]) -> Option<&[f32]> {
        let rows = observed.len() / self.net.spec.observed;
        self.values_after(parameters, observed, &vec![0.0; rows * self.net.state()])
    }

    fn values_after(&mut self, parameters: &[f32], observed: &[f32], states: &[f32]) -> Option<&[f32]> {
        let begins = vec![false; observed.len() / self.net.spec.observed];
        self.net.forward(parameters, Steps { observed, states, begins: &begins }, &mut self.tape);
        Some(self.net.values_of(&self.tape))
    }

    fn memory(&self) -> Option<Memory> {
        Some(Memory { numbers: self.net.state(), steps: self.net.spec.steps_max.max(1) })
    }

    fn states(&self) -> &[f32] {
        &self.states
    }

    fn set_states(&mut self, states: &[f32]) {
        self.states.clear();
        self.states.extend_from_slice(states);
    }

    fn forget(&mut self, env: usize) {
        let size = self.net.state();
        self.states[env * size..(env + 1) * size].fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{RecurrentNet, RecurrentSpec, RecurrentTape, Steps};
    use crate::chance::Chance;
    use crate::nn::Activation;
    use crate::space::Acted;

    /// Of the sum of all that comes out, each by its own weight, over four steps of two sequences.
    #[test]
    fn gradients_are_those_of_differences() {
        let (low, high) = (vec![-1.0; 2], vec![1.0; 2]);
        let numbers = Acted::Box { low, high };
        let both = Acted::Mixed { counts: vec![2], low: vec![-1.0], high: vec![1.0] };
        let cases =
            [(vec![4], true, &numbers), (vec![], false, &numbers), (vec![4], true, &both), (vec![], false, &both)];
        for (hiddens, free_log_std, acted) in cases {
            let net = RecurrentNet::new(RecurrentSpec {
                observed: 3,
                acted: acted.clone(),
                hiddens,
                activation: Activation::Tanh,
                cells: 3,
                steps_max: 4,
                free_log_std,
                image: None,
            });
            let mut chance = Chance::seeded(3);
            let mut normal = |count: usize| -> Vec<f64> { (0..count).map(|_| 0.7 * chance.normal()).collect() };
            let mut parameters = normal(net.layout().len());
            let (observed, states) = (normal(8 * 3), normal(2 * net.state()));
            let (by_inputs, by_values) = (normal(8 * 4), normal(8));
            let mut begins = [false; 8];
            begins[5] = true;
            let steps = Steps { observed: &observed, states: &states, begins: &begins };
            let loss = |parameters: &[f64], tape: &mut RecurrentTape<f64>| -> f64 {
                net.forward(parameters, steps, tape);
                let of = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                of(net.inputs_of(tape), &by_inputs) + of(net.values_of(tape), &by_values)
            };
            let (mut tape, mut gradients) = (RecurrentTape::default(), vec![0.0; parameters.len()]);
            loss(&parameters, &mut tape);
            net.backward(&parameters, steps, &mut tape, (&by_inputs, &by_values), &mut gradients);
            for at in 0..parameters.len() {
                let before = parameters[at];
                let mut moved = |by: f64| {
                    parameters[at] = before + by;
                    loss(&parameters, &mut tape)
                };
                let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                parameters[at] = before;
                let found = gradients[at];
                assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{at}: {found} {difference}");
            }
        }
    }
}
