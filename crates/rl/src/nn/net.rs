//! Layers one behind the other.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::image::{ImageSpec, Patches};
use super::{Gain, Layout, Matrix, Real, Start, multiply, turn};
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
    /// Makes what comes out of rows of sums without their biases.
    fn apply<T: Real>(self, rows: &mut [T], bias: &[T]) {
        if self == Self::Tanh {
            T::tanh_rows(rows, bias);
        } else {
            pulp::Arch::new().dispatch(Biased { rows, bias, is_bounded: self == Self::Relu });
        }
    }

    /// The gradient of a sum, given that of what came out and what came out.
    #[inline(always)]
    fn pull_back<T: Real>(self, output: T, gradient: T) -> T {
        match self {
            Self::Linear => gradient,
            Self::Tanh => gradient * (T::ONE - output * output),
            Self::Relu if output <= T::ZERO => T::ZERO,
            Self::Relu => gradient,
        }
    }
}

/// Rows and their biases, bounded below by zero or not.
struct Biased<'a, T> {
    rows: &'a mut [T],
    bias: &'a [T],
    is_bounded: bool,
}

impl<T: Real> pulp::NullaryFnOnce for Biased<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { rows, bias, is_bounded } = self;
        for row in rows.chunks_exact_mut(bias.len()) {
            for (value, bias) in row.iter_mut().zip(bias) {
                let sum = *value + *bias;
                *value = if is_bounded & (sum < T::ZERO) { T::ZERO } else { sum };
            }
        }
    }
}

/// The way back through a layer's activation and biases, row by row.
struct PullBack<'a, T> {
    activation: Activation,
    outputs: &'a [T],
    gradients: &'a mut [T],
    bias: Option<&'a mut [T]>,
    width: usize,
}

impl<T: Real> pulp::NullaryFnOnce for PullBack<'_, T> {
    type Output = ();

    // Loops that are written out: what iterators call would not be compiled for this machine's vectors.
    #[inline(always)]
    fn call(self) {
        let Self { activation, outputs, gradients, bias, width } = self;
        if activation != Activation::Linear {
            // Told apart here, so that the loops inside have no branches.
            for kind in [Activation::Tanh, Activation::Relu] {
                if kind == activation {
                    for (gradient, output) in gradients.iter_mut().zip(outputs) {
                        *gradient = kind.pull_back(*output, *gradient);
                    }
                }
            }
        }
        let Some(bias) = bias else { return };
        let bias = &mut bias[..width];
        bias.fill(T::ZERO);
        let fours = gradients.chunks_exact(4 * width);
        for row in fours.remainder().chunks_exact(width) {
            for (bias, gradient) in bias.iter_mut().zip(row) {
                *bias += *gradient;
            }
        }
        // Four rows at once: each sum is read and written a fourth as often.
        for four in fours {
            let (front, back) = four.split_at(2 * width);
            let ((a, b), (c, d)) = (front.split_at(width), back.split_at(width));
            for ((((bias, a), b), c), d) in bias.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *bias += (*a + *b) + (*c + *d);
            }
        }
    }
}

/// A full layer, or one that lays the same weights over each place of a picture.
#[derive(Clone, Debug)]
struct Layer {
    /// Numbers that its weights see at once.
    inputs: usize,
    /// Numbers that come of that.
    outputs: usize,
    /// A row per input: so the way forward, taken the more often and with few rows too, needs no transpose.
    weight: Range<usize>,
    bias: Range<usize>,
    activation: Activation,
    gain: Gain,
    /// Of a picture: the places.
    patches: Option<Patches>,
}

impl Layer {
    /// How often its weights are used per row.
    fn places(&self) -> usize {
        self.patches.as_ref().map_or(1, Patches::places)
    }

    /// Numbers that go in per row.
    fn row_inputs(&self) -> usize {
        self.patches.as_ref().map_or(self.inputs, Patches::inputs)
    }

    /// Numbers that come out per row.
    fn row_outputs(&self) -> usize {
        self.places() * self.outputs
    }

    /// The product of the sums' gradients with the weights' transpose. Whatever is smaller is turned: the weights, or what goes in and comes out.
    fn through_weights<T: Real>(
        &self,
        parameters: &[T],
        rows: usize,
        of_sums: &[T],
        turned: &mut Vec<T>,
        into: &mut Vec<T>,
    ) {
        let weight = &parameters[self.weight.clone()];
        if rows * (self.inputs + self.outputs) >= weight.len() {
            turn(weight, self.inputs, self.outputs, turned);
            let weight = Matrix::new(turned, self.outputs, self.inputs);
            return multiply(into, false, Matrix::new(of_sums, rows, self.outputs), weight);
        }
        turn(of_sums, rows, self.outputs, turned);
        let weight = Matrix::new(weight, self.inputs, self.outputs);
        multiply(into, false, weight, Matrix::new(turned, self.outputs, rows));
        turn(into, self.inputs, rows, turned);
        std::mem::swap(into, turned);
    }

    /// Writes the gradients of what went in, given those of the sums; `rows` of the matrix, not of the batch.
    fn pull_back<T: Real>(&self, parameters: &[T], rows: usize, of_sums: &[T], turned: &mut Vec<T>, into: &mut Vec<T>) {
        let Some(patches) = &self.patches else {
            into.resize(rows * self.inputs, T::ZERO);
            return self.through_weights(parameters, rows, of_sums, turned, into);
        };
        let mut of_patches = vec![T::ZERO; rows * self.inputs];
        self.through_weights(parameters, rows, of_sums, turned, &mut of_patches);
        into.clear();
        into.resize(rows / patches.places() * patches.inputs(), T::ZERO);
        patches.join(&of_patches, into);
    }
}

/// Products with fewer columns than this leave most of a vector of the processor empty: their transpose is computed.
const NARROW: usize = 8;

/// What goes into a network.
pub(crate) enum Inputs<'a> {
    /// So many numbers.
    Numbers(usize),
    /// A picture, with layers of its own before the others.
    Image(&'a ImageSpec),
}

impl From<usize> for Inputs<'_> {
    fn from(numbers: usize) -> Self {
        Self::Numbers(numbers)
    }
}

impl<'a> Inputs<'a> {
    /// So many numbers, which may be a picture.
    pub(crate) fn of(numbers: usize, image: Option<&'a ImageSpec>) -> Self {
        let Some(image) = image else { return Self::Numbers(numbers) };
        assert_eq!(image.size(), numbers, "an observation is one picture");
        Self::Image(image)
    }
}

/// Layers one behind the other. Their parameters lie in a flat vector that others may share.
#[derive(Clone, Debug)]
pub struct Net {
    layers: Vec<Layer>,
}

/// What came out of each layer on the way forward, and room for the way back.
#[derive(Clone, Debug, Default)]
pub struct Tape<T> {
    outputs: Vec<Vec<T>>,
    /// Of layers over pictures: what lay under the filter, place by place.
    patches: Vec<Vec<T>>,
    gradients: [Vec<T>; 2],
    /// A layer's weights with a row per output.
    turned: Vec<T>,
}

impl Net {
    /// Plans layers of these sizes; the last has its own activation and gain.
    pub(crate) fn new<'a>(
        layout: &mut Layout,
        name: &str,
        inputs: impl Into<Inputs<'a>>,
        hiddens: &[usize],
        activation: Activation,
        last: Option<(usize, Gain)>,
    ) -> Self {
        let mut net = Self { layers: Vec::new() };
        let before = match inputs.into() {
            Inputs::Numbers(numbers) => numbers,
            Inputs::Image(image) => {
                for (outputs, patches) in image.outputs().zip(image.layers()) {
                    // As torch has them, but with the channels that go in last.
                    let shape = [outputs, patches.kernel, patches.kernel, patches.channels()];
                    net.push(layout, name, &shape, (Activation::Relu, Gain::HIDDEN), Some(patches));
                }
                net.outputs()
            }
        };
        let hiddens = hiddens.iter().map(|size| (*size, activation, Gain::HIDDEN));
        let last = last.map(|(size, gain)| (size, Activation::Linear, gain));
        let mut before = before;
        for (outputs, activation, gain) in hiddens.chain(last) {
            net.push(layout, name, &[outputs, before], (activation, gain), None);
            before = outputs;
        }
        net
    }

    /// Plans one more layer, whose weights are of this shape.
    fn push(
        &mut self,
        layout: &mut Layout,
        name: &str,
        shape: &[usize],
        (activation, gain): (Activation, Gain),
        patches: Option<Patches>,
    ) {
        let of_image = self.layers.iter().any(|layer| layer.patches.is_some());
        // As torch numbers them where each activation is a layer of its own, and so is what makes rows of pictures.
        let number = 2 * self.layers.len() + usize::from(of_image && patches.is_none());
        let weight = layout.add_turned(format!("{name}.{number}.weight"), shape);
        let bias = layout.add(format!("{name}.{number}.bias"), &shape[..1]);
        let (outputs, inputs) = (shape[0], shape[1..].iter().product());
        self.layers.push(Layer { inputs, outputs, weight, bias, activation, gain, patches });
    }

    /// Multiplications per row on the way forward.
    pub(crate) fn work(&self) -> usize {
        self.layers.iter().map(|layer| layer.places() * layer.inputs * layer.outputs).sum()
    }

    /// Numbers that come out per row.
    pub(crate) fn outputs(&self) -> usize {
        self.layers.last().map_or(0, Layer::row_outputs)
    }

    /// Sets the parameters to what they are before training.
    pub(crate) fn init<T: Real>(&self, parameters: &mut [T], start: Start, chance: &mut Chance) {
        for layer in &self.layers {
            // A layer's biases lie behind its weights.
            let (weight, rest) = parameters[layer.weight.start..].split_at_mut(layer.weight.len());
            start.layer(layer.gain, weight, &mut rest[..layer.bias.len()], chance);
        }
    }

    /// What comes out for these rows. The tape keeps it, and what the way back needs.
    pub(crate) fn forward<'a, T: Real>(&self, parameters: &[T], inputs: &[T], tape: &'a mut Tape<T>) -> &'a [T] {
        let rows = inputs.len() / self.layers[0].row_inputs();
        tape.outputs.resize_with(self.layers.len(), Vec::new);
        tape.patches.resize_with(self.layers.len(), Vec::new);
        for (index, layer) in self.layers.iter().enumerate() {
            let (before, rest) = tape.outputs.split_at_mut(index);
            let inputs = before.last().map_or(inputs, |outputs| &outputs[..]);
            let inputs = layer.patches.as_ref().map_or(inputs, |patches| {
                patches.cut(inputs, &mut tape.patches[index]);
                &tape.patches[index]
            });
            let outputs = &mut rest[0];
            outputs.resize(rows * layer.row_outputs(), T::ZERO);
            let weight = Matrix::new(&parameters[layer.weight.clone()], layer.inputs, layer.outputs);
            multiply(outputs, false, Matrix::new(inputs, rows * layer.places(), layer.inputs), weight);
            layer.activation.apply(outputs, &parameters[layer.bias.clone()]);
        }
        tape.outputs.last().map_or(&[], |outputs| &outputs[..])
    }

    /// What the last way forward brought.
    pub(crate) fn outputs_of<'a, T>(&self, tape: &'a Tape<T>) -> &'a [T] {
        tape.outputs.last().map_or(&[], |outputs| &outputs[..])
    }

    /// Numbers per row that the last layer gets.
    pub(crate) fn features(&self) -> usize {
        self.layers.last().map_or(0, Layer::row_inputs)
    }

    /// What the last layer got on the last way forward; nothing if that were the inputs.
    pub(crate) fn features_of<'a, T>(&self, tape: &'a Tape<T>) -> Option<&'a [T]> {
        self.layers.len().checked_sub(2).map(|index| &tape.outputs[index][..])
    }

    /// Writes to `gradients` those of its parameters, given those of what came out; adds to `of_inputs`, if given, those of the inputs.
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
        let rows = inputs.len() / self.layers[0].row_inputs();
        let Tape { outputs: kept, patches: cut, gradients: [current, before], turned } = tape;
        current.clear();
        current.extend_from_slice(of_outputs);
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let rows = rows * layer.places();
            pulp::Arch::new().dispatch(PullBack {
                activation: layer.activation,
                outputs: &kept[index],
                gradients: current,
                bias: gradients.as_deref_mut().map(|gradients| &mut gradients[layer.bias.clone()]),
                width: layer.outputs,
            });
            if let Some(gradients) = gradients.as_deref_mut() {
                let inputs = match (&layer.patches, index) {
                    (Some(_), _) => &cut[index],
                    (None, 0) => inputs,
                    (None, _) => &kept[index - 1],
                };
                let sums = Matrix::new(current, rows, layer.outputs);
                let weight = &mut gradients[layer.weight.clone()];
                let inputs = Matrix::new(inputs, rows, layer.inputs);
                if layer.outputs >= NARROW {
                    multiply(weight, false, inputs.transposed(), sums);
                } else {
                    before.resize(layer.outputs * layer.inputs, T::ZERO);
                    multiply(before, false, sums.transposed(), inputs);
                    turn(before, layer.outputs, layer.inputs, turned);
                    weight.copy_from_slice(turned);
                }
            }
            if index == 0 {
                break;
            }
            layer.pull_back(parameters, rows, current, turned, before);
            std::mem::swap(current, before);
        }
        if let Some(of_inputs) = of_inputs {
            let layer = &self.layers[0];
            layer.pull_back(parameters, rows * layer.places(), current, turned, before);
            of_inputs.iter_mut().zip(&*before).for_each(|(sum, part)| *sum += *part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Activation, Inputs, Net, Tape};
    use crate::chance::Chance;
    use crate::nn::{Gain, ImageSpec, Layout};

    /// Of the sum of what comes out, each by its own weight: by parameters and by inputs.
    #[test]
    fn gradients_are_those_of_differences() {
        let picture = ImageSpec::new([5, 4, 2], vec![[3, 3, 1], [2, 2, 2]], true).unwrap();
        for image in [None, Some(&picture)] {
            let (mut layout, mut chance) = (Layout::default(), Chance::seeded(8));
            let size = image.map_or(6, ImageSpec::size);
            let last = Some((3, Gain::VALUE));
            let net = Net::new(&mut layout, "net", Inputs::of(size, image), &[5], Activation::Tanh, last);
            let mut numbers: Vec<f64> = (0..layout.len() + 4 * size).map(|_| 0.6 * chance.normal()).collect();
            let by: Vec<f64> = (0..12).map(|_| chance.normal()).collect();
            let loss = |numbers: &[f64], tape: &mut Tape<f64>| -> f64 {
                let (parameters, inputs) = numbers.split_at(layout.len());
                net.forward(parameters, inputs, tape).iter().zip(&by).map(|(output, by)| output * by).sum()
            };
            let mut tape = Tape::default();
            loss(&numbers, &mut tape);
            let mut gradients = vec![0.0; numbers.len()];
            let (parameters, inputs) = numbers.split_at(layout.len());
            let (of_parameters, of_inputs) = gradients.split_at_mut(layout.len());
            net.backward(parameters, inputs, &mut tape, &by, of_parameters, Some(of_inputs));
            let mut alone = vec![0.0; inputs.len()];
            net.backward_inputs(parameters, inputs, &mut tape, &by, &mut alone);
            assert_eq!(alone, of_inputs);
            for at in 0..numbers.len() {
                let before = numbers[at];
                let mut moved = |by: f64| {
                    numbers[at] = before + by;
                    loss(&numbers, &mut tape)
                };
                let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                numbers[at] = before;
                let found = gradients[at];
                assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{at}: {found} {difference}");
            }
        }
    }

    #[test]
    fn tensors_are_named_as_torch_would_name_them() {
        let picture = ImageSpec::new([5, 4, 2], vec![[3, 3, 1]], true).unwrap();
        let mut layout = Layout::default();
        Net::new(&mut layout, "pi", Inputs::Image(&picture), &[5], Activation::Tanh, Some((2, Gain::VALUE)));
        let named: Vec<(&str, &[usize])> =
            layout.tensors().iter().map(|tensor| (&tensor.name[..], &tensor.shape[..])).collect();
        // A filter, its activation, what makes rows of pictures, then a full layer and its activation, then the last.
        let weights = [("pi.0.weight", &[3, 3, 3, 2][..]), ("pi.3.weight", &[5, 60]), ("pi.5.weight", &[2, 5])];
        assert_eq!(named.into_iter().step_by(2).collect::<Vec<_>>(), weights);
    }
}
