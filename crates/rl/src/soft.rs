//! The networks of soft actor-critic: one that chooses numbers between bounds, and those that say what a choice is worth.

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::dist::{Sde, SdeNoise, SdeSpec, Squashed};
use crate::nn::{Activation, Gain, Layout, Net, Real, Start, Tape};
use crate::policy::{Choice, Chosen, Policy};

/// What kind of networks these are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SoftSpec {
    /// Numbers per observation.
    pub observed: usize,
    /// The least that each number of an action may be.
    pub low: Vec<f32>,
    /// The most.
    pub high: Vec<f32>,
    /// Sizes of the hidden layers of what chooses.
    pub hiddens: Vec<usize>,
    /// Sizes of the hidden layers of what values.
    pub critic_hiddens: Vec<usize>,
    /// What hidden layers do with their sums.
    pub activation: Activation,
    /// Whether two value each choice and the lower word counts.
    pub is_twin: bool,
    /// Whether noise depends on the state, and how.
    #[serde(default)]
    pub sde: Option<SdeSpec>,
    /// What the parameters are before training.
    #[serde(default)]
    pub start: Start,
}

/// What chooses.
#[derive(Clone, Debug)]
pub struct Actor {
    observed: usize,
    layout: Layout,
    /// What comes before the means where noise depends on the state.
    body: Option<Net>,
    net: Net,
    sde: Option<Sde>,
    squashed: Squashed,
    start: Start,
}

/// What came out on the way forward, and room for the way back.
#[derive(Clone, Debug, Default)]
pub struct ActorTape<T> {
    body: Tape<T>,
    net: Tape<T>,
    rows: Vec<T>,
    of_means: Vec<T>,
    of_features: Vec<T>,
}

impl Actor {
    /// Plans the network.
    #[must_use]
    pub fn new(spec: &SoftSpec) -> Self {
        let (mut layout, squashed) = (Layout::default(), Squashed::new(&spec.low, &spec.high));
        let (actions, activation) = (squashed.actions(), spec.activation);
        let Some(sde) = spec.sde else {
            let last = Some((squashed.inputs(), Gain::POLICY));
            let net = Net::new(&mut layout, "pi", spec.observed, &spec.hiddens, activation, last);
            return Self { observed: spec.observed, layout, body: None, net, sde: None, squashed, start: spec.start };
        };
        let body = (!spec.hiddens.is_empty())
            .then(|| Net::new(&mut layout, "pi", spec.observed, &spec.hiddens, activation, None));
        let features = body.as_ref().map_or(spec.observed, Net::outputs);
        let net = Net::new(&mut layout, "mu", features, &[], activation, Some((actions, Gain::POLICY)));
        let range = layout.add("log_std".into(), &[features, actions]);
        let sde = Some(Sde { spec: sde, range, features, actions });
        Self { observed: spec.observed, layout, body, net, sde, squashed, start: spec.start }
    }

    /// Where the parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What makes actions of the outputs.
    #[must_use]
    pub fn squashed(&self) -> &Squashed {
        &self.squashed
    }

    /// Parameters before training.
    #[must_use]
    pub fn init<T: Real>(&self, chance: &mut Chance) -> Vec<T> {
        let mut parameters = vec![T::ZERO; self.layout.len()];
        self.body.iter().chain([&self.net]).for_each(|net| net.init(&mut parameters, self.start, chance));
        if let Some(sde) = &self.sde {
            sde.init(&mut parameters);
        }
        parameters
    }

    /// What is chosen from, for these rows.
    pub fn forward<'a, T: Real>(&self, parameters: &[T], observed: &[T], tape: &'a mut ActorTape<T>) -> &'a [T] {
        let features = match &self.body {
            Some(body) => body.forward(parameters, observed, &mut tape.body),
            None => observed,
        };
        let outputs = self.net.forward(parameters, features, &mut tape.net);
        let Some(sde) = &self.sde else { return outputs };
        tape.rows.clear();
        sde.rows(parameters, outputs, features, &mut tape.rows);
        &tape.rows
    }

    /// What the last way forward brought.
    #[must_use]
    pub fn outputs_of<'a, T>(&self, tape: &'a ActorTape<T>) -> &'a [T] {
        if self.sde.is_some() { &tape.rows } else { self.net.outputs_of(&tape.net) }
    }

    /// What noise depends on: what came before the means on the last way forward.
    fn features_of<'a, T>(&self, observed: &'a [T], tape: &'a ActorTape<T>) -> &'a [T] {
        self.body.as_ref().map_or(observed, |body| body.outputs_of(&tape.body))
    }

    /// Adds to `gradients` those of the parameters, given those of what is chosen from, for the rows of the last `forward`.
    pub fn backward<T: Real>(
        &self,
        parameters: &[T],
        observed: &[T],
        tape: &mut ActorTape<T>,
        of_inputs: &[T],
        gradients: &mut [T],
    ) {
        let ActorTape { body: body_tape, net, rows, of_means, of_features } = tape;
        let Some(sde) = &self.sde else {
            return self.net.backward(parameters, observed, net, of_inputs, gradients, None);
        };
        let features = self.body.as_ref().map_or(observed, |body| body.outputs_of(body_tape));
        of_features.clear();
        of_features.resize(features.len(), T::ZERO);
        sde.gradient(parameters, (rows, of_inputs), features, (gradients, of_means), Some(of_features));
        self.net.backward(parameters, features, net, of_means, gradients, Some(of_features));
        if let Some(body) = &self.body {
            body.backward(parameters, observed, body_tape, of_features, gradients, None);
        }
    }
}

/// What values choices. A row is what is seen and then the unit (see [`Squashed`]) that was chosen.
#[derive(Clone, Debug)]
pub struct Critics {
    layout: Layout,
    nets: Vec<Net>,
    start: Start,
}

impl Critics {
    /// Plans the networks.
    #[must_use]
    pub fn new(spec: &SoftSpec) -> Self {
        let mut layout = Layout::default();
        let names = if spec.is_twin { &["qf", "qf_twin"][..] } else { &["qf"] };
        let inputs = spec.observed + spec.low.len();
        let mut net = |name: &&str| {
            Net::new(&mut layout, name, inputs, &spec.critic_hiddens, spec.activation, Some((1, Gain::VALUE)))
        };
        let nets = names.iter().map(&mut net).collect();
        Self { layout, nets, start: spec.start }
    }

    /// Where the parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.nets.len()
    }

    /// Parameters before training.
    #[must_use]
    pub fn init<T: Real>(&self, chance: &mut Chance) -> Vec<T> {
        let mut parameters = vec![T::ZERO; self.layout.len()];
        self.nets.iter().for_each(|net| net.init(&mut parameters, self.start, chance));
        parameters
    }

    /// What one of them says of these rows.
    pub fn forward<'a, T: Real>(&self, index: usize, parameters: &[T], rows: &[T], tape: &'a mut Tape<T>) -> &'a [T] {
        self.nets[index].forward(parameters, rows, tape)
    }

    /// Adds to `gradients` those of one's parameters, given those of what it said, for the rows of its last `forward`.
    pub fn backward<T: Real>(
        &self,
        index: usize,
        (parameters, rows): (&[T], &[T]),
        tape: &mut Tape<T>,
        of_worth: &[T],
        gradients: &mut [T],
    ) {
        self.nets[index].backward(parameters, rows, tape, of_worth, gradients, None);
    }

    /// Adds to `of_rows` the gradients of the rows' numbers, given those of what one said of them in its last `forward`.
    pub fn backward_rows<T: Real>(
        &self,
        index: usize,
        (parameters, rows): (&[T], &[T]),
        tape: &mut Tape<T>,
        of_worth: &[T],
        of_rows: &mut [T],
    ) {
        self.nets[index].backward_inputs(parameters, rows, tape, of_worth, of_rows);
    }
}

/// What chooses, as a policy to act by.
pub struct SoftPolicy {
    actor: Actor,
    tape: ActorTape<f32>,
    kept: SdeNoise,
    noise: Vec<f32>,
    units: Vec<f32>,
    logp: Vec<f32>,
}

impl SoftPolicy {
    /// Acts by this network.
    #[must_use]
    pub fn new(actor: Actor) -> Self {
        Self {
            actor,
            tape: ActorTape::default(),
            kept: SdeNoise::default(),
            noise: Vec::new(),
            units: Vec::new(),
            logp: Vec::new(),
        }
    }
}

impl Policy for SoftPolicy {
    fn layout(&self) -> &Layout {
        &self.actor.layout
    }

    fn observed(&self) -> usize {
        self.actor.observed
    }

    fn actions(&self) -> usize {
        self.actor.squashed.actions()
    }

    fn init(&self, chance: &mut Chance) -> Vec<f32> {
        self.actor.init(chance)
    }

    fn act(&mut self, parameters: &[f32], observed: &[f32], choice: Choice, chance: &mut Chance, into: Chosen<'_>) {
        let Self { actor, tape, kept, noise, units, logp } = self;
        actor.forward(parameters, observed, tape);
        let inputs = actor.outputs_of(tape);
        noise.clear();
        match (choice, &actor.sde) {
            (Choice::Drawn, Some(sde)) => {
                kept.draw(sde, parameters, (inputs, actor.features_of(observed, tape)), chance, noise);
            }
            (Choice::Drawn, None) => noise.extend((0..into.actions.len()).map(|_| chance.normal() as f32)),
            (Choice::Best | Choice::Astray(_), _) => noise.resize(into.actions.len(), 0.0),
        }
        actor.squashed.squash(inputs, noise, units, logp);
        if let Choice::Astray(share) = choice {
            for unit in units.chunks_exact_mut(actor.squashed.actions()) {
                if chance.random() < f64::from(share) {
                    unit.iter_mut().for_each(|unit| *unit = chance.uniform(-1.0, 1.0) as f32);
                }
            }
        }
        actor.squashed.stretch(units, into.actions);
        into.inputs.extend_from_slice(inputs);
        into.logp.extend_from_slice(logp);
    }

    fn told(&mut self, parameters: &[f32], observed: &[f32], into: Chosen<'_>) {
        self.actor.forward(parameters, observed, &mut self.tape);
        into.inputs.extend_from_slice(self.actor.outputs_of(&self.tape));
    }

    fn values(&mut self, _: &[f32], _: &[f32]) -> Option<&[f32]> {
        None
    }

    fn rest(&mut self) {
        self.kept.forget();
    }
}
