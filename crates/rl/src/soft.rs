//! The networks of soft actor-critic: one that chooses numbers between bounds, and those that say what a choice is worth.

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::dist::{Sde, SdeNoise, SdeSpec, Squashed};
use crate::nn::{Activation, Gain, ImageSpec, Inputs, Layout, Net, Real, Start, Tape};
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
    /// If an observation is a picture: how it is looked at before the hidden layers, by each network for itself.
    #[serde(default)]
    pub image: Option<ImageSpec>,
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
        let seen = Inputs::of(spec.observed, spec.image.as_ref());
        let Some(sde) = spec.sde else {
            let last = Some((squashed.inputs(), Gain::POLICY));
            let net = Net::new(&mut layout, "pi", seen, &spec.hiddens, activation, last);
            return Self { observed: spec.observed, layout, body: None, net, sde: None, squashed, start: spec.start };
        };
        let body = (!spec.hiddens.is_empty() || spec.image.is_some())
            .then(|| Net::new(&mut layout, "pi", seen, &spec.hiddens, activation, None));
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
    critics: Vec<Critic>,
    observed: usize,
    actions: usize,
    start: Start,
}

/// One of them. Pictures are looked at before the choice is put beside what was found in them.
#[derive(Clone, Debug)]
struct Critic {
    looks: Option<Net>,
    net: Net,
}

/// What came out on the way forward, and room for the way back.
#[derive(Clone, Debug, Default)]
pub struct CriticTape<T> {
    looks: Tape<T>,
    net: Tape<T>,
    pictures: Vec<T>,
    /// What was found in the pictures, and the choices.
    pairs: Vec<T>,
    of_pairs: Vec<T>,
    of_found: Vec<T>,
}

impl Critics {
    /// Plans the networks.
    #[must_use]
    pub fn new(spec: &SoftSpec) -> Self {
        let mut layout = Layout::default();
        let names = if spec.is_twin { &["qf", "qf_twin"][..] } else { &["qf"] };
        let (observed, actions) = (spec.observed, spec.low.len());
        let critic = |name: &&str| {
            let image = spec.image.as_ref().map(|image| Inputs::of(observed, Some(image)));
            let looks =
                image.map(|image| Net::new(&mut layout, &format!("{name}.conv"), image, &[], Activation::Relu, None));
            let inputs = looks.as_ref().map_or(observed, Net::outputs) + actions;
            let last = Some((1, Gain::VALUE));
            let net = Net::new(&mut layout, name, inputs, &spec.critic_hiddens, spec.activation, last);
            Critic { looks, net }
        };
        let critics = names.iter().map(critic).collect();
        Self { layout, critics, observed, actions, start: spec.start }
    }

    /// Where the parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.critics.len()
    }

    /// Parameters before training.
    #[must_use]
    pub fn init<T: Real>(&self, chance: &mut Chance) -> Vec<T> {
        let mut parameters = vec![T::ZERO; self.layout.len()];
        let nets = self.critics.iter().flat_map(|critic| critic.looks.iter().chain([&critic.net]));
        nets.for_each(|net| net.init(&mut parameters, self.start, chance));
        parameters
    }

    /// What one of them says of these rows.
    pub fn forward<'a, T: Real>(
        &self,
        index: usize,
        parameters: &[T],
        rows: &[T],
        tape: &'a mut CriticTape<T>,
    ) -> &'a [T] {
        let Critic { looks, net } = &self.critics[index];
        let CriticTape { looks: looks_tape, net: net_tape, pictures, pairs, .. } = tape;
        let Some(looks) = looks else { return net.forward(parameters, rows, net_tape) };
        let rows = rows.chunks_exact(self.observed + self.actions).map(|row| row.split_at(self.observed));
        pictures.clear();
        rows.clone().for_each(|(picture, _)| pictures.extend_from_slice(picture));
        let found = looks.forward(parameters, pictures, looks_tape);
        pairs.clear();
        for (found, (_, unit)) in found.chunks_exact(looks.outputs()).zip(rows) {
            pairs.extend_from_slice(found);
            pairs.extend_from_slice(unit);
        }
        net.forward(parameters, pairs, net_tape)
    }

    /// Writes to `gradients` those of one's parameters, given those of what it said, for the rows of its last `forward`.
    pub fn backward<T: Real>(
        &self,
        index: usize,
        (parameters, rows): (&[T], &[T]),
        tape: &mut CriticTape<T>,
        of_worth: &[T],
        gradients: &mut [T],
    ) {
        let Critic { looks, net } = &self.critics[index];
        let CriticTape { looks: looks_tape, net: net_tape, pictures, pairs, of_pairs, of_found } = tape;
        let Some(looks) = looks else {
            return net.backward(parameters, rows, net_tape, of_worth, gradients, None);
        };
        of_pairs.clear();
        of_pairs.resize(pairs.len(), T::ZERO);
        net.backward(parameters, pairs, net_tape, of_worth, gradients, Some(of_pairs));
        of_found.clear();
        let of_rows = of_pairs.chunks_exact(looks.outputs() + self.actions);
        of_rows.for_each(|row| of_found.extend_from_slice(&row[..looks.outputs()]));
        looks.backward(parameters, pictures, looks_tape, of_found, gradients, None);
    }

    /// Adds to `of_rows` the gradients of the choices in them, given those of what one said of them in its last `forward`.
    pub fn backward_choices<T: Real>(
        &self,
        index: usize,
        (parameters, rows): (&[T], &[T]),
        tape: &mut CriticTape<T>,
        of_worth: &[T],
        of_rows: &mut [T],
    ) {
        let Critic { looks, net } = &self.critics[index];
        let CriticTape { net: net_tape, pairs, of_pairs, .. } = tape;
        let Some(looks) = looks else {
            return net.backward_inputs(parameters, rows, net_tape, of_worth, of_rows);
        };
        of_pairs.clear();
        of_pairs.resize(pairs.len(), T::ZERO);
        net.backward_inputs(parameters, pairs, net_tape, of_worth, of_pairs);
        let of_pairs = of_pairs.chunks_exact(looks.outputs() + self.actions);
        for (of_row, of_pair) in of_rows.chunks_exact_mut(self.observed + self.actions).zip(of_pairs) {
            let of_units = of_row[self.observed..].iter_mut().zip(&of_pair[looks.outputs()..]);
            of_units.for_each(|(sum, part)| *sum += *part);
        }
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
