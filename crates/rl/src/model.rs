//! A policy and what it expects: the networks that choose actions and value states.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::dist::{Dist, Sde, SdeNoise, SdeSpec};
use crate::nn::{Activation, Gain, ImageSpec, Inputs, Layout, Net, Real, Start, Tape};
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
    /// Whether the noise of actions that are numbers depends on the state, and how. Deviations are then parameters of their own.
    #[serde(default)]
    pub sde: Option<SdeSpec>,
    /// What the parameters are before training.
    #[serde(default)]
    pub start: Start,
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
            sde: None,
            start: Start::default(),
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
    values_begin: usize,
    deviations: Deviations,
}

/// Where the deviations of numbers come from.
#[derive(Clone, Debug)]
enum Deviations {
    /// The network says them, or there are none.
    Said,
    /// Parameters of their own.
    Free(Range<usize>),
    /// Parameters of their own for each feature of the state. They move by how features are, and do not move features.
    OfState(Sde),
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
        let sde = spec.sde.filter(|_| matches!(dist, Dist::Gaussian(_)));
        let is_free = dist.deviations() > 0 && (spec.free_log_std || sde.is_some());
        let chosen = if is_free { dist.inputs() - dist.deviations() } else { dist.inputs() };
        let seen = || Inputs::of(spec.observed, spec.image.as_ref());
        let (hiddens, activation) = (&spec.hiddens[..], spec.activation);
        let (chosen, valued) = (Some((chosen, Gain::POLICY)), Some((1, Gain::VALUE)));
        let is_shared = spec.is_shared && !(hiddens.is_empty() && spec.image.is_none());
        let shared = is_shared.then(|| Net::new(&mut layout, "encoder", seen(), hiddens, activation, None));
        let seen = || shared.as_ref().map_or_else(&seen, |shared| Inputs::Numbers(shared.outputs()));
        let hiddens = if is_shared { &[][..] } else { hiddens };
        let chooses = Net::new(&mut layout, "pi", seen(), hiddens, activation, chosen);
        let (actions, features) = (dist.actions(), chooses.features());
        let deviations = match sde {
            Some(spec) => {
                let range = layout.add("log_std".into(), &[features, actions]);
                Deviations::OfState(Sde { spec, range, features, actions })
            }
            None if is_free => Deviations::Free(layout.add("log_std".into(), &[dist.deviations()])),
            None => Deviations::Said,
        };
        let values_begin = layout.len();
        let values = Net::new(&mut layout, "vf", seen(), hiddens, activation, valued);
        Self { spec, layout, dist, shared, chooses, values, values_begin, deviations }
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
        let nets = self.shared.iter().chain([&self.chooses, &self.values]);
        nets.for_each(|net| net.init(&mut parameters, self.spec.start, chance));
        if let Deviations::OfState(sde) = &self.deviations {
            sde.init(&mut parameters);
        }
        parameters
    }

    /// Computes what is chosen from, for these rows.
    pub fn choose<'a, T: Real>(&self, parameters: &[T], observed: &[T], tape: &'a mut ModelTape<T>) -> &'a [T] {
        let inputs = match &self.shared {
            Some(shared) => shared.forward(parameters, observed, &mut tape.shared),
            None => observed,
        };
        self.chooses.forward(parameters, inputs, &mut tape.chooses);
        let outputs = self.chooses.outputs_of(&tape.chooses);
        tape.inputs.clear();
        match &self.deviations {
            Deviations::Said => return outputs,
            Deviations::Free(log_std) => {
                for said in outputs.chunks_exact(self.dist.inputs() - self.dist.deviations()) {
                    tape.inputs.extend_from_slice(said);
                    tape.inputs.extend_from_slice(&parameters[log_std.clone()]);
                }
            }
            Deviations::OfState(sde) => {
                let features = self.chooses.features_of(&tape.chooses).unwrap_or(inputs);
                sde.rows(parameters, outputs, features, &mut tape.inputs);
            }
        }
        &tape.inputs
    }

    /// What the last `choose` brought.
    fn inputs_of<'a, T>(&self, tape: &'a ModelTape<T>) -> &'a [T] {
        match self.deviations {
            Deviations::Said => self.chooses.outputs_of(&tape.chooses),
            Deviations::Free(_) | Deviations::OfState(_) => &tape.inputs,
        }
    }

    /// What the last layer chose from on the last way forward: what noise depends on.
    fn features_of<'a>(&self, observed: &'a [f32], tape: &'a ModelTape<f32>) -> &'a [f32] {
        let inputs = self.shared.as_ref().map_or(observed, |shared| shared.outputs_of(&tape.shared));
        self.chooses.features_of(&tape.chooses).unwrap_or(inputs)
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

    /// Multiplications per row on the way forward.
    pub(crate) fn work(&self) -> usize {
        self.shared.iter().chain([&self.chooses, &self.values]).map(Net::work).sum()
    }

    /// Where the parameters of what values states begin, if it shares no layer with what chooses; those of what chooses are all before.
    pub(crate) fn values_begin(&self) -> Option<usize> {
        self.shared.is_none().then_some(self.values_begin)
    }

    /// Writes to `gradients` those of the parameters, given those of what is chosen from and of the values, for the rows of the last `choose`
    /// and `value`.
    pub fn backward<T: Real>(
        &self,
        parameters: &[T],
        observed: &[T],
        tape: &mut ModelTape<T>,
        (of_inputs, of_values): (&[T], &[T]),
        gradients: &mut [T],
    ) {
        let Some(shared) = &self.shared else {
            self.backward_choices(parameters, observed, tape, of_inputs, gradients);
            self.backward_values(parameters, observed, tape, of_values, gradients);
            return;
        };
        let of_means = self.of_means(parameters, observed, tape, of_inputs, gradients);
        let ModelTape { shared: shared_tape, chooses, values, of_shared, .. } = tape;
        let inputs = shared.outputs_of(shared_tape);
        of_shared.clear();
        of_shared.resize(inputs.len(), T::ZERO);
        let of_outputs = of_means.as_deref().unwrap_or(of_inputs);
        self.chooses.backward(parameters, inputs, chooses, of_outputs, gradients, Some(of_shared));
        self.values.backward(parameters, inputs, values, of_values, gradients, Some(of_shared));
        shared.backward(parameters, observed, shared_tape, of_shared, gradients, None);
        tape.of_means = of_means.unwrap_or_default();
    }

    /// The part of that for what chooses, where no layer is shared.
    pub(crate) fn backward_choices<T: Real>(
        &self,
        parameters: &[T],
        observed: &[T],
        tape: &mut ModelTape<T>,
        of_inputs: &[T],
        gradients: &mut [T],
    ) {
        let of_means = self.of_means(parameters, observed, tape, of_inputs, gradients);
        let of_outputs = of_means.as_deref().unwrap_or(of_inputs);
        self.chooses.backward(parameters, observed, &mut tape.chooses, of_outputs, gradients, None);
        tape.of_means = of_means.unwrap_or_default();
    }

    /// The part of that for values, where no layer is shared.
    pub(crate) fn backward_values<T: Real>(
        &self,
        parameters: &[T],
        observed: &[T],
        tape: &mut ModelTape<T>,
        of_values: &[T],
        gradients: &mut [T],
    ) {
        self.values.backward(parameters, observed, &mut tape.values, of_values, gradients, None);
    }

    /// Where deviations are parameters of their own: writes their gradients and returns those of what the network says, in the tape's room.
    fn of_means<T: Real>(
        &self,
        parameters: &[T],
        observed: &[T],
        tape: &mut ModelTape<T>,
        of_inputs: &[T],
        gradients: &mut [T],
    ) -> Option<Vec<T>> {
        let mut of_means = std::mem::take(&mut tape.of_means);
        match &self.deviations {
            Deviations::Said => return None,
            Deviations::OfState(sde) => {
                let before = self.shared.as_ref().map_or(observed, |shared| shared.outputs_of(&tape.shared));
                let features = self.chooses.features_of(&tape.chooses).unwrap_or(before);
                gradients[sde.range.clone()].fill(T::ZERO);
                sde.gradient(parameters, (&tape.inputs, of_inputs), features, (gradients, &mut of_means), None);
            }
            Deviations::Free(log_std) => {
                of_means.clear();
                let of_log_std = &mut gradients[log_std.clone()];
                of_log_std.fill(T::ZERO);
                for row in of_inputs.chunks_exact(self.dist.inputs()) {
                    let (said, logs) = row.split_at(row.len() - self.dist.deviations());
                    of_means.extend_from_slice(said);
                    of_log_std.iter_mut().zip(logs).for_each(|(sum, log)| *sum += *log);
                }
            }
        }
        Some(of_means)
    }
}

/// Networks that choose and value, as a policy to act by.
pub struct ActorCritic {
    model: Model,
    tape: ModelTape<f32>,
    kept: SdeNoise,
    noise: Vec<f32>,
}

impl ActorCritic {
    /// Acts by these networks.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self { model, tape: ModelTape::default(), kept: SdeNoise::default(), noise: Vec::new() }
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
        self.model.choose(parameters, observed, &mut self.tape);
        let inputs = self.model.inputs_of(&self.tape);
        into.inputs.extend_from_slice(inputs);
        let noise = match (&self.model.deviations, choice) {
            (Deviations::OfState(sde), Choice::Drawn | Choice::Astray(_)) => {
                let features = self.model.features_of(observed, &self.tape);
                self.kept.draw(sde, parameters, (inputs, features), chance, &mut self.noise);
                Some(&self.noise)
            }
            _ => None,
        };
        let rows = inputs.chunks_exact(dist.inputs()).zip(into.actions.chunks_exact_mut(dist.actions()));
        for (index, (row, action)) in rows.enumerate() {
            into.logp.push(match (choice, noise) {
                (Choice::Best, _) => dist.best(row, action),
                (_, None) => dist.sample(row, chance, action),
                (_, Some(noise)) => dist.moved(row, &noise[index * dist.actions()..], action),
            });
        }
        if self.model.shared.is_some() {
            into.values.extend_from_slice(self.model.value(parameters, observed, &mut self.tape));
        }
    }

    fn told(&mut self, parameters: &[f32], observed: &[f32], into: Chosen<'_>) {
        let dist = &self.model.dist;
        let inputs = self.model.choose(parameters, observed, &mut self.tape);
        into.inputs.extend_from_slice(inputs);
        for (row, action) in inputs.chunks_exact(dist.inputs()).zip(into.actions.chunks_exact(dist.actions())) {
            into.logp.push(dist.terms(row, action, row).logp);
        }
        if self.model.shared.is_some() {
            into.values.extend_from_slice(self.model.value(parameters, observed, &mut self.tape));
        }
    }

    fn values(&mut self, parameters: &[f32], observed: &[f32]) -> Option<&[f32]> {
        Some(self.model.value_only(parameters, observed, &mut self.tape))
    }

    fn rest(&mut self) {
        self.kept.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::{ActorCritic, Model, ModelSpec, ModelTape};
    use crate::chance::Chance;
    use crate::dist::SdeSpec;
    use crate::nn::{Activation, ImageSpec, Layout};
    use crate::policy::{Choice, Chosen, Policy};
    use crate::space::Acted;

    fn spec(is_shared: bool, hiddens: Vec<usize>) -> ModelSpec {
        ModelSpec {
            observed: 3,
            acted: Acted::Box { low: vec![-1.0; 2], high: vec![1.0; 2] },
            hiddens,
            is_shared,
            sde: Some(SdeSpec { every: Some(4), log_std: -0.5 }),
            ..ModelSpec::default()
        }
    }

    /// Of the sum of all that comes out, each by its own weight. Noise that depends on the state does not move what it depends on, so means and
    /// deviations are told apart.
    #[test]
    fn gradients_are_those_of_differences() {
        let picture = ImageSpec::new([3, 2, 2], vec![[3, 2, 1]], true).unwrap();
        let seeing = |is_shared| ModelSpec {
            observed: 12,
            image: Some(picture.clone()),
            sde: None,
            activation: Activation::Relu,
            ..spec(is_shared, vec![4])
        };
        let mut specs = vec![seeing(false), seeing(true), ModelSpec { hiddens: vec![], ..seeing(true) }];
        specs
            .extend([(false, vec![5, 4]), (true, vec![5]), (false, vec![])].map(|(shared, sizes)| spec(shared, sizes)));
        for spec in specs {
            let (model, mut chance) = (Model::new(spec), Chance::seeded(3));
            let mut normal = |count: usize| -> Vec<f64> { (0..count).map(|_| 0.7 * chance.normal()).collect() };
            let mut parameters = normal(model.layout().len());
            let observed = normal(4 * model.spec().observed);
            let (by_inputs, by_values) = (normal(16), normal(4));
            let is_apart = model.spec().sde.is_some();
            let loss = |parameters: &[f64], tape: &mut ModelTape<f64>, (means, logs): (bool, bool)| -> f64 {
                let parts = model.choose(parameters, &observed, tape).iter().zip(&by_inputs).enumerate();
                let wanted = parts.filter(|(at, _)| if at % 4 < 2 { means } else { logs });
                let sum = wanted.map(|(_, (input, by))| input * by).sum::<f64>();
                let values = model.value(parameters, &observed, tape).iter().zip(&by_values);
                sum + values.map(|(value, by)| value * by).sum::<f64>()
            };
            let (mut tape, mut gradients) = (ModelTape::default(), vec![0.0; parameters.len()]);
            loss(&parameters, &mut tape, (true, true));
            model.backward(&parameters, &observed, &mut tape, (&by_inputs, &by_values), &mut gradients);
            let of_state = |layout: &Layout, at: usize| {
                layout.tensors().iter().any(|tensor| tensor.name == "log_std" && tensor.range().contains(&at))
            };
            for at in 0..parameters.len() {
                let parts = if is_apart { (true, of_state(model.layout(), at)) } else { (true, true) };
                let before = parameters[at];
                let mut moved = |by: f64| {
                    parameters[at] = before + by;
                    loss(&parameters, &mut tape, parts)
                };
                let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                parameters[at] = before;
                let found = gradients[at];
                assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{at}: {found} {difference}");
            }
        }
    }

    #[test]
    fn the_same_state_gets_the_same_noise_until_another_is_drawn() {
        let mut policy = ActorCritic::new(Model::new(spec(false, vec![5])));
        let mut chance = Chance::seeded(6);
        let parameters = policy.init(&mut chance);
        let mut act = |policy: &mut ActorCritic, choice: Choice| {
            let (mut actions, mut inputs, mut logp) = (vec![0.0; 2], Vec::new(), Vec::new());
            let into = Chosen { actions: &mut actions, inputs: &mut inputs, logp: &mut logp, values: &mut Vec::new() };
            policy.act(&parameters, &[0.3, -1.0, 0.5], choice, &mut chance, into);
            let expected = policy.model.dist.terms(&inputs, &actions, &inputs).logp;
            assert_eq!(logp, [expected]);
            actions
        };
        let first = act(&mut policy, Choice::Drawn);
        assert!((0..3).all(|_| act(&mut policy, Choice::Drawn) == first));
        let second = act(&mut policy, Choice::Drawn);
        assert_ne!(second, first, "after four steps");
        policy.rest();
        assert_ne!(act(&mut policy, Choice::Drawn), second, "with the next rollout");
        assert_eq!(act(&mut policy, Choice::Best), act(&mut policy, Choice::Best));
    }
}
