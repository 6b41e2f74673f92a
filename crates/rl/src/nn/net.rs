//! Layers one behind the other.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Gain, Layout, Matrix, Real, multiply};
use crate::chance::Chance;

/// What a layer does with its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Nothing.
    Linear,
    /// The hyperbolic tangent.
    Tanh,
    /// What is below zero is zero.
    Relu,
}

impl Activation {
    fn apply<T: Real>(self, values: &mut [T]) {
        match self {
            Self::Linear => {}
            Self::Tanh => T::tanh_all(values),
            Self::Relu => values.iter_mut().for_each(|value| *value = value.at_least(T::ZERO)),
        }
    }

    /// Turns gradients of what came out into those of the sums, given what came out.
    fn pull_back<T: Real>(self, outputs: &[T], gradients: &mut [T]) {
        match self {
            Self::Linear => {}
            Self::Tanh => {
                for (gradient, output) in gradients.iter_mut().zip(outputs) {
                    *gradient *= T::ONE - *output * *output;
                }
            }
            Self::Relu => {
                for (gradient, output) in gradients.iter_mut().zip(outputs) {
                    if *output <= T::ZERO {
                        *gradient = T::ZERO;
                    }
                }
            }
        }
    }
}

/// A full layer.
#[derive(Clone, Debug)]
struct Layer {
    inputs: usize,
    outputs: usize,
    weight: Range<usize>,
    bias: Range<usize>,
    activation: Activation,
    gain: Gain,
}

/// Full layers one behind the other. Their parameters lie in a flat vector that others may share.
#[derive(Clone, Debug)]
pub struct Net {
    layers: Vec<Layer>,
}

/// What came out of each layer on the way forward, and room for the way back.
#[derive(Clone, Debug, Default)]
pub struct Tape<T> {
    outputs: Vec<Vec<T>>,
    gradients: [Vec<T>; 2],
}

impl Net {
    /// Plans layers of these sizes; the last has its own activation and gain.
    pub(crate) fn new(
        layout: &mut Layout,
        name: &str,
        inputs: usize,
        hiddens: &[usize],
        activation: Activation,
        last: Option<(usize, Gain)>,
    ) -> Self {
        let mut net = Self { layers: Vec::new() };
        let hiddens = hiddens.iter().map(|size| (*size, activation, Gain::HIDDEN));
        let last = last.map(|(size, gain)| (size, Activation::Linear, gain));
        let mut before = inputs;
        for (index, (outputs, activation, gain)) in hiddens.chain(last).enumerate() {
            // As torch numbers them where each activation is a layer of its own.
            let number = 2 * index;
            let weight = layout.add(format!("{name}.{number}.weight"), &[outputs, before]);
            let bias = layout.add(format!("{name}.{number}.bias"), &[outputs]);
            net.layers.push(Layer { inputs: before, outputs, weight, bias, activation, gain });
            before = outputs;
        }
        net
    }

    /// Numbers that come out per row.
    pub(crate) fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.outputs)
    }

    /// Sets the parameters to what they are before training.
    pub(crate) fn init<T: Real>(&self, parameters: &mut [T], chance: &mut Chance) {
        for layer in &self.layers {
            layer.gain.orthogonal(&mut parameters[layer.weight.clone()], layer.outputs, layer.inputs, chance);
            parameters[layer.bias.clone()].fill(T::ZERO);
        }
    }

    /// What comes out for these rows. The tape keeps it, and what the way back needs.
    pub(crate) fn forward<'a, T: Real>(&self, parameters: &[T], inputs: &[T], tape: &'a mut Tape<T>) -> &'a [T] {
        let rows = inputs.len() / self.layers[0].inputs;
        tape.outputs.resize_with(self.layers.len(), Vec::new);
        for (index, layer) in self.layers.iter().enumerate() {
            let (before, rest) = tape.outputs.split_at_mut(index);
            let inputs = before.last().map_or(inputs, |outputs| &outputs[..]);
            let outputs = &mut rest[0];
            outputs.resize(rows * layer.outputs, T::ZERO);
            let bias = &parameters[layer.bias.clone()];
            outputs.chunks_exact_mut(layer.outputs).for_each(|row| row.copy_from_slice(bias));
            let weight = Matrix::new(&parameters[layer.weight.clone()], layer.outputs, layer.inputs);
            multiply(outputs, true, Matrix::new(inputs, rows, layer.inputs), weight.transposed());
            layer.activation.apply(outputs);
        }
        tape.outputs.last().map_or(&[], |outputs| &outputs[..])
    }

    /// What the last way forward brought.
    pub(crate) fn outputs_of<'a, T>(&self, tape: &'a Tape<T>) -> &'a [T] {
        tape.outputs.last().map_or(&[], |outputs| &outputs[..])
    }

    /// Adds to `gradients` those of the parameters, given those of what came out; and to `of_inputs`, if given, those of the inputs.
    #[expect(clippy::too_many_arguments, reason = "what went in, what came out, and where the gradients go")]
    pub(crate) fn backward<T: Real>(
        &self,
        parameters: &[T],
        inputs: &[T],
        tape: &mut Tape<T>,
        of_outputs: &[T],
        gradients: &mut [T],
        of_inputs: Option<&mut [T]>,
    ) {
        self.back(parameters, inputs, tape, of_outputs, (Some(gradients), of_inputs));
    }

    /// Adds to `of_inputs` the gradients of the inputs, given those of what came out, and leaves those of the parameters.
    pub(crate) fn backward_inputs<T: Real>(
        &self,
        parameters: &[T],
        inputs: &[T],
        tape: &mut Tape<T>,
        of_outputs: &[T],
        of_inputs: &mut [T],
    ) {
        self.back(parameters, inputs, tape, of_outputs, (None, Some(of_inputs)));
    }

    fn back<T: Real>(
        &self,
        parameters: &[T],
        inputs: &[T],
        tape: &mut Tape<T>,
        of_outputs: &[T],
        (mut gradients, of_inputs): (Option<&mut [T]>, Option<&mut [T]>),
    ) {
        let rows = inputs.len() / self.layers[0].inputs;
        let Tape { outputs: kept, gradients: [current, before] } = tape;
        current.clear();
        current.extend_from_slice(of_outputs);
        for (index, layer) in self.layers.iter().enumerate().rev() {
            layer.activation.pull_back(&kept[index], current);
            if let Some(gradients) = gradients.as_deref_mut() {
                let inputs = if index == 0 { inputs } else { &kept[index - 1] };
                let sums = Matrix::new(current, rows, layer.outputs);
                let weight = &mut gradients[layer.weight.clone()];
                multiply(weight, true, sums.transposed(), Matrix::new(inputs, rows, layer.inputs));
                let bias = &mut gradients[layer.bias.clone()];
                for row in current.chunks_exact(layer.outputs) {
                    bias.iter_mut().zip(row).for_each(|(bias, gradient)| *bias += *gradient);
                }
            }
            if index == 0 {
                break;
            }
            let weight = Matrix::new(&parameters[layer.weight.clone()], layer.outputs, layer.inputs);
            before.resize(rows * layer.inputs, T::ZERO);
            multiply(before, false, Matrix::new(current, rows, layer.outputs), weight);
            std::mem::swap(current, before);
        }
        if let Some(of_inputs) = of_inputs {
            let layer = &self.layers[0];
            let weight = Matrix::new(&parameters[layer.weight.clone()], layer.outputs, layer.inputs);
            multiply(of_inputs, true, Matrix::new(current, rows, layer.outputs), weight);
        }
    }
}
