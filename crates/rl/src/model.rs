//! A policy and what it expects: the networks that choose actions and value states.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::dist::Dist;
use crate::nn::{Activation, Gain, ImageSpec, Inputs, Layout, Net, Real, Tape};
use crate::policy::{Choice, Chosen, Policy};
use crate::space::Acted;

/// What kind of networks these are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// Numbers per observation.
    pub observed: usize,
    /// What is chosen.
    pub acted: Acted,
    /// Sizes of the hidden layers.
    pub hiddens: Vec<usize>,
    /// What hidden layers do with their sums.
    pub activation: Activation,
    /// Whether choosing and valuing share their hidden layers.
    pub is_shared: bool,
    /// Whether deviations are parameters of their own instead of the network's outputs.
    pub free_log_std: bool,
    /// If an observation is a picture: how it is looked at before the hidden layers.
    #[serde(default)]
    pub image: Option<ImageSpec>,
}

impl Default for ModelSpec {
    /// Two hidden layers of 256, for one number and a choice of two.
    fn default() -> Self {
        Self {
            observed: 1,
            acted: Acted::Discrete(2),
            hiddens: vec![256, 256],
            activation: Activation::Tanh,
            is_shared: false,
            free_log_std: false,
            image: None,
        }
    }
}

/// The networks of one policy.
#[derive(Clone, Debug)]
pub struct Model {
    spec: ModelSpec,
    layout: Layout,
    dist: Dist,
    shared: Option<Net>,
    chooses: Net,
    values: Net,
    log_std: Option<Range<usize>>,
}

/// What came out on the way forward, and room for the way back.
#[derive(Clone, Debug, Default)]
pub struct ModelTape<T> {
    shared: Tape<T>,
    chooses: Tape<T>,
    values: Tape<T>,
    inputs: Vec<T>,
    of_shared: Vec<T>,
    of_means: Vec<T>,
}

impl Model {
    /// Plans the networks.
    #[must_use]
    pub fn new(spec: ModelSpec) -> Self {
        let mut layout = Layout::default();
        let dist = Dist::of(&spec.acted);
        let is_free = spec.free_log_std && matches!(dist, Dist::Gaussian(_));
        let chosen = if is_free { dist.actions() } else { dist.inputs() };
        let seen = || Inputs::of(spec.observed, spec.image.as_ref());
        let (hiddens, activation) = (&spec.hiddens[..], spec.activation);
        let (chosen, valued) = (Some((chosen, Gain::POLICY)), Some((1, Gain::VALUE)));
        let (shared, chooses, values) = if spec.is_shared && !(hiddens.is_empty() && spec.image.is_none()) {
            let shared = Net::new(&mut layout, "encoder", seen(), hiddens, activation, None);
            let inputs = shared.outputs();
            let chooses = Net::new(&mut layout, "pi", inputs, &[], activation, chosen);
            let values = Net::new(&mut layout, "vf", inputs, &[], activation, valued);
            (Some(shared), chooses, values)
        } else {
            let chooses = Net::new(&mut layout, "pi", seen(), hiddens, activation, chosen);
            let values = Net::new(&mut layout, "vf", seen(), hiddens, activation, valued);
            (None, chooses, values)
        };
        let log_std = is_free.then(|| layout.add("log_std".into(), &[dist.actions()]));
        Self { spec, layout, dist, shared, chooses, values, log_std }
    }

    /// What kind of networks these are.
    #[must_use]
    pub fn spec(&self) -> &ModelSpec {
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

    /// Parameters before training.
    #[must_use]
    pub fn init<T: Real>(&self, chance: &mut Chance) -> Vec<T> {
        let mut parameters = vec![T::ZERO; self.layout.len()];
        self.shared.iter().chain([&self.chooses, &self.values]).for_each(|net| net.init(&mut parameters, chance));
        parameters
    }

    /// Computes what is chosen from, for these rows.
    pub fn choose<'a, T: Real>(&self, parameters: &[T], observed: &[T], tape: &'a mut ModelTape<T>) -> &'a [T] {
        let inputs = match &self.shared {
            Some(shared) => shared.forward(parameters, observed, &mut tape.shared),
            None => observed,
        };
        let outputs = self.chooses.forward(parameters, inputs, &mut tape.chooses);
        let Some(log_std) = &self.log_std else { return outputs };
        tape.inputs.clear();
        for means in outputs.chunks_exact(self.dist.actions()) {
            tape.inputs.extend_from_slice(means);
            tape.inputs.extend_from_slice(&parameters[log_std.clone()]);
        }
        &tape.inputs
    }

    /// Computes what each of these rows is worth. If layers are shared, of the rows that were last chosen for.
    pub fn value<'a, T: Real>(&self, parameters: &[T], observed: &[T], tape: &'a mut ModelTape<T>) -> &'a [T] {
        let inputs = self.shared.as_ref().map_or(observed, |shared| shared.outputs_of(&tape.shared));
        self.values.forward(parameters, inputs, &mut tape.values)
    }

    /// Computes what each of these rows is worth, whatever was computed before.
    pub fn value_only<'a, T: Real>(&self, parameters: &[T], observed: &[T], tape: &'a mut ModelTape<T>) -> &'a [T] {
        if let Some(shared) = &self.shared {
            shared.forward(parameters, observed, &mut tape.shared);
        }
        self.value(parameters, observed, tape)
    }

    /// Adds to `gradients` those of the parameters, given those of what is chosen from and of the values, for the rows of the last `choose`
    /// and `value`.
    pub fn backward<T: Real>(
        &self,
        parameters: &[T],
        observed: &[T],
        tape: &mut ModelTape<T>,
        (of_inputs, of_values): (&[T], &[T]),
        gradients: &mut [T],
    ) {
        let ModelTape { shared: shared_tape, chooses, values, of_shared, of_means, .. } = tape;
        let of_outputs = match &self.log_std {
            None => of_inputs,
            Some(log_std) => {
                of_means.clear();
                let of_log_std = &mut gradients[log_std.clone()];
                for row in of_inputs.chunks_exact(self.dist.inputs()) {
                    let (means, logs) = row.split_at(self.dist.actions());
                    of_means.extend_from_slice(means);
                    of_log_std.iter_mut().zip(logs).for_each(|(sum, log)| *sum += *log);
                }
                &of_means[..]
            }
        };
        let Some(shared) = &self.shared else {
            self.chooses.backward(parameters, observed, chooses, of_outputs, gradients, None);
            self.values.backward(parameters, observed, values, of_values, gradients, None);
            return;
        };
        let inputs = shared.outputs_of(shared_tape);
        of_shared.clear();
        of_shared.resize(inputs.len(), T::ZERO);
        self.chooses.backward(parameters, inputs, chooses, of_outputs, gradients, Some(of_shared));
        self.values.backward(parameters, inputs, values, of_values, gradients, Some(of_shared));
        shared.backward(parameters, observed, shared_tape, of_shared, gradients, None);
    }
}

/// Networks that choose and value, as a policy to act by.
pub struct ActorCritic {
    model: Model,
    tape: ModelTape<f32>,
}

impl ActorCritic {
    /// Acts by these networks.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self { model, tape: ModelTape::default() }
    }
}

impl Policy for ActorCritic {
    fn layout(&self) -> &Layout {
        &self.model.layout
    }

    fn observed(&self) -> usize {
        self.model.spec.observed
    }

    fn actions(&self) -> usize {
        self.model.dist.actions()
    }

    fn init(&self, chance: &mut Chance) -> Vec<f32> {
        self.model.init(chance)
    }

    fn act(&mut self, parameters: &[f32], observed: &[f32], choice: Choice, chance: &mut Chance, into: Chosen<'_>) {
        let dist = &self.model.dist;
        let inputs = self.model.choose(parameters, observed, &mut self.tape);
        into.inputs.extend_from_slice(inputs);
        for (row, action) in inputs.chunks_exact(dist.inputs()).zip(into.actions.chunks_exact_mut(dist.actions())) {
            into.logp.push(match choice {
                Choice::Best => dist.best(row, action),
                Choice::Drawn | Choice::Astray(_) => dist.sample(row, chance, action),
            });
        }
        into.values.extend_from_slice(self.model.value(parameters, observed, &mut self.tape));
    }

    fn told(&mut self, parameters: &[f32], observed: &[f32], into: Chosen<'_>) {
        let dist = &self.model.dist;
        let inputs = self.model.choose(parameters, observed, &mut self.tape);
        into.inputs.extend_from_slice(inputs);
        for (row, action) in inputs.chunks_exact(dist.inputs()).zip(into.actions.chunks_exact(dist.actions())) {
            into.logp.push(dist.terms(row, action, row).logp);
        }
        into.values.extend_from_slice(self.model.value(parameters, observed, &mut self.tape));
    }

    fn values(&mut self, parameters: &[f32], observed: &[f32]) -> Option<&[f32]> {
        Some(self.model.value_only(parameters, observed, &mut self.tape))
    }
}
