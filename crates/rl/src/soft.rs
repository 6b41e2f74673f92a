//! The networks of soft actor-critic: one that chooses numbers between bounds, and those that say what a choice is worth.

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::dist::Squashed;
use crate::nn::{Activation, Gain, Layout, Net, Real, Tape};
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
}

/// What chooses.
#[derive(Clone, Debug)]
pub struct Actor {
    observed: usize,
    layout: Layout,
    net: Net,
    squashed: Squashed,
}

impl Actor {
    /// Plans the network.
    #[must_use]
    pub fn new(spec: &SoftSpec) -> Self {
        let (mut layout, squashed) = (Layout::default(), Squashed::new(&spec.low, &spec.high));
        let last = Some((squashed.inputs(), Gain::POLICY));
        let net = Net::new(&mut layout, "pi", spec.observed, &spec.hiddens, spec.activation, last);
        Self { observed: spec.observed, layout, net, squashed }
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
        self.net.init(&mut parameters, chance);
        parameters
    }

    /// What is chosen from, for these rows.
    pub fn forward<'a, T: Real>(&self, parameters: &[T], observed: &[T], tape: &'a mut Tape<T>) -> &'a [T] {
        self.net.forward(parameters, observed, tape)
    }

    /// What the last way forward brought.
    #[must_use]
    pub fn outputs_of<'a, T>(&self, tape: &'a Tape<T>) -> &'a [T] {
        self.net.outputs_of(tape)
    }

    /// Adds to `gradients` those of the parameters, given those of what is chosen from, for the rows of the last `forward`.
    pub fn backward<T: Real>(
        &self,
        parameters: &[T],
        observed: &[T],
        tape: &mut Tape<T>,
        of_inputs: &[T],
        gradients: &mut [T],
    ) {
        self.net.backward(parameters, observed, tape, of_inputs, gradients, None);
    }
}

/// What values choices. A row is what is seen and then the unit (see [`Squashed`]) that was chosen.
#[derive(Clone, Debug)]
pub struct Critics {
    layout: Layout,
    nets: Vec<Net>,
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
        Self { layout, nets }
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
        self.nets.iter().for_each(|net| net.init(&mut parameters, chance));
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
    tape: Tape<f32>,
    noise: Vec<f32>,
    units: Vec<f32>,
    logp: Vec<f32>,
}

impl SoftPolicy {
    /// Acts by this network.
    #[must_use]
    pub fn new(actor: Actor) -> Self {
        Self { actor, tape: Tape::default(), noise: Vec::new(), units: Vec::new(), logp: Vec::new() }
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
        let Self { actor, tape, noise, units, logp } = self;
        let inputs = actor.forward(parameters, observed, tape);
        noise.clear();
        noise.extend((0..into.actions.len()).map(|_| match choice {
            Choice::Drawn => chance.normal() as f32,
            Choice::Best | Choice::Astray(_) => 0.0,
        }));
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

    fn values(&mut self, _: &[f32], _: &[f32]) -> Option<&[f32]> {
        None
    }
}
