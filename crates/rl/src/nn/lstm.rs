//! A layer with memory: long short-term memory (Hochreiter and Schmidhuber 1997), with gradients back through time.
//!
//! Rows are steps of sequences side by side, by step first, as in rollouts. A state is what the layer last gave out and then its cells. Where an
//! episode begins in the middle of a sequence the state is zero, and nothing flows back beyond.

use std::ops::Range;

use super::{Layout, Matrix, Real, multiply};
use crate::chance::Chance;

/// The layer's plan. Gates lie in torch's order: input, forget, cell, output.
#[derive(Clone, Debug)]
pub(crate) struct Lstm {
    inputs: usize,
    cells: usize,
    of_inputs: Range<usize>,
    of_memory: Range<usize>,
    biases: [Range<usize>; 2],
}

/// What happened on the way forward, and room for the way back. Rows as in the inputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct LstmTape<T> {
    gates: Vec<T>,
    /// What went into each step: what the one before gave out, and its cells.
    before: Vec<T>,
    cells_before: Vec<T>,
    /// The tangents of the cells.
    bent: Vec<T>,
    outputs: Vec<T>,
    /// What the next step begins with.
    state: [Vec<T>; 2],
    of_sums: Vec<T>,
    flowing: [Vec<T>; 2],
}

impl<T> LstmTape<T> {
    /// What was given out.
    pub(crate) fn outputs(&self) -> &[T] {
        &self.outputs
    }
}

/// Sequences side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequences<'a, T> {
    /// The state that each begins with.
    pub(crate) states: &'a [T],
    /// Of each row: whether an episode begins with it.
    pub(crate) begins: &'a [bool],
}

impl Lstm {
    /// Plans the layer, with torch's names.
    pub(crate) fn new(layout: &mut Layout, name: &str, inputs: usize, cells: usize) -> Self {
        Self {
            inputs,
            cells,
            of_inputs: layout.add(format!("{name}.weight_ih_l0"), &[4 * cells, inputs]),
            of_memory: layout.add(format!("{name}.weight_hh_l0"), &[4 * cells, cells]),
            biases: ["ih", "hh"].map(|kind| layout.add(format!("{name}.bias_{kind}_l0"), &[4 * cells])),
        }
    }

    /// Numbers per state.
    pub(crate) fn state(&self) -> usize {
        2 * self.cells
    }

    /// Numbers that come out per row.
    pub(crate) fn outputs(&self) -> usize {
        self.cells
    }

    /// Sets the parameters as torch would: evenly within one over the root of the cells.
    pub(crate) fn init<T: Real>(&self, parameters: &mut [T], chance: &mut Chance) {
        let reach = 1.0 / (self.cells as f64).sqrt();
        for range in [&self.of_inputs, &self.of_memory].into_iter().chain(&self.biases) {
            parameters[range.clone()].iter_mut().for_each(|value| *value = T::of(chance.uniform(-reach, reach)));
        }
    }

    /// What comes out for these rows. The tape keeps it, and what the way back needs.
    pub(crate) fn forward<T: Real>(
        &self,
        parameters: &[T],
        inputs: &[T],
        sequences: Sequences<'_, T>,
        tape: &mut LstmTape<T>,
    ) {
        let (size, rows) = (self.cells, inputs.len() / self.inputs);
        let side = sequences.states.len() / self.state();
        let LstmTape { gates, before, cells_before, bent, outputs, state: [memory, cells], .. } = tape;
        [&mut *before, cells_before, bent, outputs, memory, cells].into_iter().for_each(Vec::clear);
        for state in sequences.states.chunks_exact(2 * size) {
            memory.extend_from_slice(&state[..size]);
            cells.extend_from_slice(&state[size..]);
        }
        gates.resize(rows * 4 * size, T::ZERO);
        let [first, second] = self.biases.clone().map(|range| &parameters[range]);
        for row in gates.chunks_exact_mut(4 * size) {
            row.iter_mut().zip(first.iter().zip(second)).for_each(|(sum, (a, b))| *sum = *a + *b);
        }
        let weight = Matrix::new(&parameters[self.of_inputs.clone()], 4 * size, self.inputs);
        multiply(gates, true, Matrix::new(inputs, rows, self.inputs), weight.transposed());
        let weight = Matrix::new(&parameters[self.of_memory.clone()], 4 * size, size);
        for (gates, begins) in gates.chunks_exact_mut(side * 4 * size).zip(sequences.begins.chunks_exact(side)) {
            for (sequence, _) in begins.iter().enumerate().filter(|(_, begins)| **begins) {
                memory[sequence * size..(sequence + 1) * size].fill(T::ZERO);
                cells[sequence * size..(sequence + 1) * size].fill(T::ZERO);
            }
            before.extend_from_slice(memory);
            cells_before.extend_from_slice(cells);
            multiply(gates, true, Matrix::new(memory, side, size), weight.transposed());
            bend(gates, size);
            for (row, gates) in gates.chunks_exact(4 * size).enumerate() {
                for at in 0..size {
                    let cell = &mut cells[row * size + at];
                    *cell = gates[size + at] * *cell + gates[at] * gates[2 * size + at];
                }
            }
            let begin = bent.len();
            bent.extend_from_slice(cells);
            T::tanh_all(&mut bent[begin..]);
            for (row, gates) in gates.chunks_exact(4 * size).enumerate() {
                for at in 0..size {
                    memory[row * size + at] = gates[3 * size + at] * bent[begin + row * size + at];
                }
            }
            outputs.extend_from_slice(memory);
        }
    }

    /// The states behind the last step of the last way forward, one per sequence.
    pub(crate) fn states_of<T: Real>(&self, tape: &LstmTape<T>, into: &mut Vec<T>) {
        into.clear();
        let [memory, cells] = &tape.state;
        for (memory, cells) in memory.chunks_exact(self.cells).zip(cells.chunks_exact(self.cells)) {
            into.extend_from_slice(memory);
            into.extend_from_slice(cells);
        }
    }

    /// Adds to `gradients` those of the parameters, and to `of_inputs` those of what went in, given those of what came out. The states that sequences
    /// begin with are taken as given.
    pub(crate) fn backward<T: Real>(
        &self,
        (parameters, inputs): (&[T], &[T]),
        sequences: Sequences<'_, T>,
        tape: &mut LstmTape<T>,
        of_outputs: &[T],
        (gradients, of_inputs): (&mut [T], &mut [T]),
    ) {
        let (size, rows) = (self.cells, inputs.len() / self.inputs);
        let side = sequences.states.len() / self.state();
        let LstmTape { gates, before, cells_before, bent, of_sums, flowing: [of_memory, of_cells], .. } = tape;
        of_sums.resize(gates.len(), T::ZERO);
        for flowing in [&mut *of_memory, of_cells] {
            flowing.clear();
            flowing.resize(side * size, T::ZERO);
        }
        let weight = Matrix::new(&parameters[self.of_memory.clone()], 4 * size, size);
        for step in (0..rows / side.max(1)).rev() {
            for sequence in 0..side {
                let row = step * side + sequence;
                let gates = &gates[row * 4 * size..(row + 1) * 4 * size];
                let of_sums = &mut of_sums[row * 4 * size..(row + 1) * 4 * size];
                for at in 0..size {
                    let (here, there) = (row * size + at, sequence * size + at);
                    let [enters, stays, new, leaves] = [0, 1, 2, 3].map(|gate| gates[gate * size + at]);
                    let of_output = of_outputs[here] + of_memory[there];
                    let of_cell = of_cells[there] + of_output * leaves * (T::ONE - bent[here] * bent[here]);
                    of_sums[at] = of_cell * new * enters * (T::ONE - enters);
                    of_sums[size + at] = of_cell * cells_before[here] * stays * (T::ONE - stays);
                    of_sums[2 * size + at] = of_cell * enters * (T::ONE - new * new);
                    of_sums[3 * size + at] = of_output * bent[here] * leaves * (T::ONE - leaves);
                    of_cells[there] = of_cell * stays;
                }
            }
            let span = step * side * 4 * size..(step + 1) * side * 4 * size;
            multiply(of_memory, false, Matrix::new(&of_sums[span], side, 4 * size), weight);
            let begins = &sequences.begins[step * side..(step + 1) * side];
            for (sequence, _) in begins.iter().enumerate().filter(|(_, begins)| **begins) {
                of_memory[sequence * size..(sequence + 1) * size].fill(T::ZERO);
                of_cells[sequence * size..(sequence + 1) * size].fill(T::ZERO);
            }
        }
        let sums = Matrix::new(of_sums, rows, 4 * size);
        let into = &mut gradients[self.of_inputs.clone()];
        multiply(into, true, sums.transposed(), Matrix::new(inputs, rows, self.inputs));
        let into = &mut gradients[self.of_memory.clone()];
        multiply(into, true, sums.transposed(), Matrix::new(before, rows, size));
        for range in &self.biases {
            let bias = &mut gradients[range.clone()];
            for row in of_sums.chunks_exact(4 * size) {
                bias.iter_mut().zip(row).for_each(|(bias, gradient)| *bias += *gradient);
            }
        }
        let weight = Matrix::new(&parameters[self.of_inputs.clone()], 4 * size, self.inputs);
        multiply(of_inputs, true, sums, weight);
    }
}

/// Makes gates of sums: the logistic function, which is a tangent of half the sum, but for the new cells the tangent itself.
fn bend<T: Real>(gates: &mut [T], size: usize) {
    let half = T::of(0.5);
    let is_new = |at: usize| at / size == 2;
    for row in gates.chunks_exact_mut(4 * size) {
        row.iter_mut().enumerate().filter(|(at, _)| !is_new(*at)).for_each(|(_, sum)| *sum *= half);
    }
    T::tanh_all(gates);
    for row in gates.chunks_exact_mut(4 * size) {
        row.iter_mut().enumerate().filter(|(at, _)| !is_new(*at)).for_each(|(_, gate)| *gate = half + half * *gate);
    }
}

#[cfg(test)]
mod tests {
    use super::{Lstm, LstmTape, Sequences};
    use crate::chance::Chance;
    use crate::nn::Layout;

    const INPUTS: usize = 3;
    const CELLS: usize = 2;

    fn planned() -> (Layout, Lstm) {
        let mut layout = Layout::default();
        let lstm = Lstm::new(&mut layout, "lstm", INPUTS, CELLS);
        (layout, lstm)
    }

    fn normal(chance: &mut Chance, count: usize) -> Vec<f64> {
        (0..count).map(|_| 0.8 * chance.normal()).collect()
    }

    /// Three sequences of five steps; the second begins anew in its third step, the third in its first and last.
    #[test]
    fn gradients_are_those_of_differences() {
        let ((layout, lstm), mut chance) = (planned(), Chance::seeded(2));
        let mut begins = [false; 15];
        [7, 2, 14].into_iter().for_each(|row| begins[row] = true);
        let states = normal(&mut chance, 3 * 2 * CELLS);
        let sequences = Sequences { states: &states, begins: &begins };
        let mut numbers = normal(&mut chance, layout.len() + 15 * INPUTS);
        let by = normal(&mut chance, 15 * CELLS);
        let loss = |numbers: &[f64], tape: &mut LstmTape<f64>| -> f64 {
            let (parameters, inputs) = numbers.split_at(layout.len());
            lstm.forward(parameters, inputs, sequences, tape);
            tape.outputs().iter().zip(&by).map(|(output, by)| output * by).sum()
        };
        let mut tape = LstmTape::default();
        loss(&numbers, &mut tape);
        let mut gradients = vec![0.0; numbers.len()];
        let (of_parameters, of_inputs) = gradients.split_at_mut(layout.len());
        let (parameters, inputs) = numbers.split_at(layout.len());
        lstm.backward((parameters, inputs), sequences, &mut tape, &by, (of_parameters, of_inputs));
        for at in 0..numbers.len() {
            let before = numbers[at];
            let mut moved = |by: f64| {
                numbers[at] = before + by;
                loss(&numbers, &mut tape)
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            numbers[at] = before;
            let found = gradients[at];
            assert!((found - difference).abs() < 1e-7 * (1.0 + difference.abs()), "{at}: {found} {difference}");
        }
    }

    /// One step after the other by the definition, for one sequence.
    #[test]
    fn steps_are_those_of_the_definition_and_can_be_taken_in_parts() {
        let ((layout, lstm), mut chance) = (planned(), Chance::seeded(4));
        let parameters = normal(&mut chance, layout.len());
        let (inputs, states) = (normal(&mut chance, 6 * INPUTS), normal(&mut chance, 2 * CELLS));
        let tensor = |name: &str| {
            let tensor = layout.tensors().iter().find(|tensor| tensor.name == format!("lstm.{name}_l0")).unwrap();
            &parameters[tensor.range()]
        };
        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
        let (mut memory, mut cells) = (states[..CELLS].to_vec(), states[CELLS..].to_vec());
        let mut expected = Vec::new();
        for input in inputs.chunks_exact(INPUTS) {
            let sums: Vec<f64> = (0..4 * CELLS)
                .map(|gate| {
                    let of = |weights: &[f64], values: &[f64]| -> f64 {
                        let row = &weights[gate * values.len()..(gate + 1) * values.len()];
                        row.iter().zip(values).map(|(weight, value)| weight * value).sum()
                    };
                    of(tensor("weight_ih"), input)
                        + of(tensor("weight_hh"), &memory)
                        + tensor("bias_ih")[gate]
                        + tensor("bias_hh")[gate]
                })
                .collect();
            for at in 0..CELLS {
                cells[at] = logistic(sums[CELLS + at]) * cells[at] + logistic(sums[at]) * sums[2 * CELLS + at].tanh();
                memory[at] = logistic(sums[3 * CELLS + at]) * cells[at].tanh();
            }
            expected.extend_from_slice(&memory);
        }
        let (mut tape, mut found, mut carried) = (LstmTape::default(), Vec::new(), states);
        for part in [&inputs[..2 * INPUTS], &inputs[2 * INPUTS..]] {
            let begins = vec![false; part.len() / INPUTS];
            lstm.forward(&parameters, part, Sequences { states: &carried, begins: &begins }, &mut tape);
            found.extend_from_slice(tape.outputs());
            lstm.states_of(&tape, &mut carried);
        }
        assert!(found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-12));
        assert_eq!(carried.len(), 2 * CELLS);
        assert!((carried[CELLS] - cells[0]).abs() < 1e-12);
    }
}
