//! What each action is thought to be worth: the networks of Q-learning.

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::nn::{Activation, Gain, ImageSpec, Inputs, Layout, Net, Real, Start, Tape};
use crate::policy::{Choice, Chosen, Policy};

/// What kind of networks these are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QSpec {
    /// Numbers per observation.
    pub observed: usize,
    /// Actions to choose from.
    pub actions: usize,
    /// Sizes of the hidden layers.
    pub hiddens: Vec<usize>,
    /// What hidden layers do with their sums.
    pub activation: Activation,
    /// Sizes of the hidden layers that each head has for itself.
    pub heads: Vec<usize>,
    /// Whether the state's worth and what each action adds to it are told apart.
    pub is_dueling: bool,
    /// If an observation is a picture: how it is looked at before the hidden layers.
    #[serde(default)]
    pub image: Option<ImageSpec>,
    /// What the parameters are before training.
    #[serde(default)]
    pub start: Start,
}

impl Default for QSpec {
    /// Two hidden layers of 256, for one number and a choice of two.
    fn default() -> Self {
        Self {
            observed: 1,
            actions: 2,
            hiddens: vec![256, 256],
            activation: Activation::Tanh,
            heads: Vec::new(),
            is_dueling: false,
            image: None,
            start: Start::default(),
        }
    }
}

/// The networks of one Q function.
#[derive(Clone, Debug)]
pub struct QModel {
    spec: QSpec,
    layout: Layout,
    shared: Option<Net>,
    actions: Net,
    state: Option<Net>,
}

/// What came out on the way forward, and room for the way back.
#[derive(Clone, Debug, Default)]
pub struct QTape<T> {
    shared: Tape<T>,
    actions: Tape<T>,
    state: Tape<T>,
    worth: Vec<T>,
    of_shared: Vec<T>,
    of_actions: Vec<T>,
    of_state: Vec<T>,
}

impl QModel {
    /// Plans the networks.
    #[must_use]
    pub fn new(spec: QSpec) -> Self {
        let mut layout = Layout::default();
        let seen = Inputs::of(spec.observed, spec.image.as_ref());
        let shared = (!spec.hiddens.is_empty() || spec.image.is_some())
            .then(|| Net::new(&mut layout, "encoder", seen, &spec.hiddens, spec.activation, None));
        let inputs = shared.as_ref().map_or(spec.observed, Net::outputs);
        let mut head = |name: &str, outputs: usize| {
            Net::new(&mut layout, name, inputs, &spec.heads, Activation::Relu, Some((outputs, Gain::VALUE)))
        };
        let actions = head("af", spec.actions);
        let state = spec.is_dueling.then(|| head("vf", 1));
        Self { spec, layout, shared, actions, state }
    }

    /// Where the parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What kind of networks these are.
    #[must_use]
    pub fn spec(&self) -> &QSpec {
        &self.spec
    }

    /// Parameters before training.
    #[must_use]
    pub fn init<T: Real>(&self, chance: &mut Chance) -> Vec<T> {
        let mut parameters = vec![T::ZERO; self.layout.len()];
        let nets = self.shared.iter().chain([&self.actions]).chain(&self.state);
        nets.for_each(|net| net.init(&mut parameters, self.spec.start, chance));
        parameters
    }

    /// What each action is worth, for these rows.
    pub fn forward<'a, T: Real>(&self, parameters: &[T], observed: &[T], tape: &'a mut QTape<T>) -> &'a [T] {
        let inputs = match &self.shared {
            Some(shared) => shared.forward(parameters, observed, &mut tape.shared),
            None => observed,
        };
        let gains = self.actions.forward(parameters, inputs, &mut tape.actions);
        let Some(state) = &self.state else { return gains };
        let states = state.forward(parameters, inputs, &mut tape.state);
        tape.worth.clear();
        for (gains, state) in gains.chunks_exact(self.spec.actions).zip(states) {
            let mean = gains.iter().copied().sum::<T>() * T::of(1.0 / self.spec.actions as f64);
            tape.worth.extend(gains.iter().map(|gain| *state + *gain - mean));
        }
        &tape.worth
    }

    /// What the last `forward` found.
    pub(crate) fn worth<'a, T>(&self, tape: &'a QTape<T>) -> &'a [T] {
        if self.state.is_some() { &tape.worth } else { self.actions.outputs_of(&tape.actions) }
    }

    /// Writes to `gradients` those of the parameters, given those of what each action is worth, for the rows of the last `forward`.
    pub fn backward<T: Real>(
        &self,
        parameters: &[T],
        observed: &[T],
        tape: &mut QTape<T>,
        of_worth: &[T],
        gradients: &mut [T],
    ) {
        let QTape { shared: shared_tape, actions, state: state_tape, of_shared, of_actions, of_state, .. } = tape;
        let inputs = self.shared.as_ref().map_or(observed, |shared| shared.outputs_of(shared_tape));
        of_shared.clear();
        of_shared.resize(inputs.len(), T::ZERO);
        let of_gains = match &self.state {
            None => of_worth,
            Some(state) => {
                of_actions.clear();
                of_state.clear();
                for row in of_worth.chunks_exact(self.spec.actions) {
                    let sum = row.iter().copied().sum::<T>();
                    let mean = sum * T::of(1.0 / self.spec.actions as f64);
                    of_state.push(sum);
                    of_actions.extend(row.iter().map(|of| *of - mean));
                }
                let into = self.shared.is_some().then_some(&mut of_shared[..]);
                state.backward(parameters, inputs, state_tape, of_state, gradients, into);
                &of_actions[..]
            }
        };
        let into = self.shared.is_some().then_some(&mut of_shared[..]);
        self.actions.backward(parameters, inputs, actions, of_gains, gradients, into);
        if let Some(shared) = &self.shared {
            shared.backward(parameters, observed, shared_tape, of_shared, gradients, None);
        }
    }
}

/// Index of the largest.
pub(crate) fn best<T: Real>(worth: &[T]) -> usize {
    (1..worth.len()).fold(0, |best, index| if worth[index] > worth[best] { index } else { best })
}

/// A Q function, as a policy to act by.
pub struct QPolicy {
    model: QModel,
    tape: QTape<f32>,
}

impl QPolicy {
    /// Acts by these networks.
    #[must_use]
    pub fn new(model: QModel) -> Self {
        Self { model, tape: QTape::default() }
    }
}

impl Policy for QPolicy {
    fn layout(&self) -> &Layout {
        &self.model.layout
    }

    fn observed(&self) -> usize {
        self.model.spec.observed
    }

    fn actions(&self) -> usize {
        1
    }

    fn init(&self, chance: &mut Chance) -> Vec<f32> {
        self.model.init(chance)
    }

    fn act(&mut self, parameters: &[f32], observed: &[f32], choice: Choice, chance: &mut Chance, into: Chosen<'_>) {
        let count = self.model.spec.actions;
        let worth = self.model.forward(parameters, observed, &mut self.tape);
        into.inputs.extend_from_slice(worth);
        for (row, action) in worth.chunks_exact(count).zip(into.actions) {
            let is_astray = matches!(choice, Choice::Astray(share) if chance.random() < f64::from(share));
            *action = if is_astray { chance.integers(count as u64) as f32 } else { best(row) as f32 };
        }
    }

    fn told(&mut self, parameters: &[f32], observed: &[f32], into: Chosen<'_>) {
        into.inputs.extend_from_slice(self.model.forward(parameters, observed, &mut self.tape));
    }

    fn values(&mut self, _: &[f32], _: &[f32]) -> Option<&[f32]> {
        None
    }
}
