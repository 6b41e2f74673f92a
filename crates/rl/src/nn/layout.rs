//! Where each tensor of a network lies in its flat vectors.

use std::ops::Range;

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};

use super::turn;

/// One tensor of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// As torch would call it: `pi.0.weight`.
    pub name: String,
    /// Its sizes, the last varying fastest.
    pub shape: Vec<usize>,
    /// Where it begins in the flat vector.
    pub offset: usize,
    /// Whether the flat vector holds it with its first size varying fastest.
    pub is_turned: bool,
}

impl Tensor {
    /// Its numbers in the flat vector.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.shape.iter().product::<usize>()
    }

    /// As a matrix: its first size, and all others together.
    fn sides(&self) -> (usize, usize) {
        let rows = self.shape[0].max(1);
        (rows, self.range().len() / rows)
    }
}

/// Why weights do not fit a network.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WeightsError {
    /// They are no safetensors file.
    #[error("the weights cannot be read: {0}")]
    Unreadable(String),
    /// A tensor is not there.
    #[error("the weights have no tensor {0}: they are of another network")]
    Missing(String),
    /// A tensor is there that the network has not.
    #[error("the weights have a tensor {0}, which this network has not: they are of another network")]
    Unknown(String),
    /// They are more or fewer.
    #[error("the weights are {found} numbers instead of {expected}: they are of another network")]
    Length {
        /// The network's.
        expected: usize,
        /// The weights'.
        found: usize,
    },
    /// A tensor is of another shape or type.
    #[error("the weights' tensor {name} is {kind}{found:?} instead of F32{expected:?}: they are of another network")]
    Shape {
        /// Its name.
        name: String,
        /// The network's shape.
        expected: Vec<usize>,
        /// The weights'.
        found: Vec<usize>,
        /// The weights' type.
        kind: String,
    },
}

/// Begins numbers that lie as they are.
const MARK: &[u8] = b"eagleray flat\n";

/// All tensors of a network, one behind the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    tensors: Vec<Tensor>,
    len: usize,
}

impl Layout {
    /// Adds a tensor behind the others, and says where it lies.
    pub(crate) fn add(&mut self, name: String, shape: &[usize]) -> Range<usize> {
        self.push(name, shape, false)
    }

    /// The same for one whose first size varies fastest in the flat vector.
    pub(crate) fn add_turned(&mut self, name: String, shape: &[usize]) -> Range<usize> {
        self.push(name, shape, true)
    }

    fn push(&mut self, name: String, shape: &[usize], is_turned: bool) -> Range<usize> {
        let tensor = Tensor { name, shape: shape.to_vec(), offset: self.len, is_turned };
        let range = tensor.range();
        self.len = range.end;
        self.tensors.push(tensor);
        range
    }

    /// Numbers in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The numbers as a safetensors file.
    #[must_use]
    pub fn packed(&self, values: &[f32]) -> Vec<u8> {
        assert_eq!(values.len(), self.len, "the numbers of this layout");
        let mut ordered = Vec::with_capacity(values.len());
        let mut turned = Vec::new();
        for tensor in &self.tensors {
            let ((rows, columns), values) = (tensor.sides(), &values[tensor.range()]);
            if tensor.is_turned {
                turn(values, columns, rows, &mut turned);
            }
            ordered.extend_from_slice(if tensor.is_turned { &turned } else { values });
        }
        let mut bytes = vec![0; 4 * ordered.len()];
        let places = bytes.as_chunks_mut::<4>().0.iter_mut();
        places.zip(ordered).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
        let views = self.tensors.iter().map(|tensor| {
            let Range { start, end } = tensor.range();
            let view = TensorView::new(Dtype::F32, tensor.shape.clone(), &bytes[4 * start..4 * end]);
            (&tensor.name, view.expect("as many numbers as its shape has"))
        });
        serialize(views, None).expect("plain tensors")
    }

    /// The numbers as they lie, for others of the same build: to write and read them takes a tenth of the time that a file takes.
    #[must_use]
    pub fn flat(&self, values: &[f32]) -> Vec<u8> {
        assert_eq!(values.len(), self.len, "the numbers of this layout");
        let mut bytes = vec![0; MARK.len() + 4 * values.len()];
        bytes[..MARK.len()].copy_from_slice(MARK);
        let places = bytes[MARK.len()..].as_chunks_mut::<4>().0.iter_mut();
        places.zip(values).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
        bytes
    }

    /// Reads what [`Self::flat`] wrote.
    fn lay(&self, bytes: &[u8], into: &mut [f32]) -> Result<(), WeightsError> {
        if bytes.len() != 4 * self.len {
            return Err(WeightsError::Length { expected: self.len, found: bytes.len() / 4 });
        }
        into.iter_mut().zip(bytes.as_chunks::<4>().0).for_each(|(into, bytes)| *into = f32::from_le_bytes(*bytes));
        Ok(())
    }

    /// Reads such a file, or what [`Self::flat`] wrote. Every tensor of this layout must be there in its shape.
    pub fn unpack(&self, file: &[u8], into: &mut [f32]) -> Result<(), WeightsError> {
        if let Some(bytes) = file.strip_prefix(MARK) {
            return self.lay(bytes, into);
        }
        let file = SafeTensors::deserialize(file).map_err(|error| WeightsError::Unreadable(error.to_string()))?;
        let mut found = Vec::with_capacity(self.len);
        let (mut read, mut turned) = (Vec::new(), Vec::new());
        for tensor in &self.tensors {
            let view = file.tensor(&tensor.name).map_err(|_| WeightsError::Missing(tensor.name.clone()))?;
            if view.dtype() != Dtype::F32 || view.shape() != tensor.shape {
                return Err(WeightsError::Shape {
                    name: tensor.name.clone(),
                    expected: tensor.shape.clone(),
                    found: view.shape().to_vec(),
                    kind: format!("{:?}", view.dtype()),
                });
            }
            read.clear();
            read.extend(view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            let (rows, columns) = tensor.sides();
            if tensor.is_turned {
                turn(&read, rows, columns, &mut turned);
            }
            found.extend_from_slice(if tensor.is_turned { &turned } else { &read });
        }
        if let Some(name) = file.names().into_iter().find(|name| !self.tensors.iter().any(|it| it.name == *name)) {
            return Err(WeightsError::Unknown((*name).to_string()));
        }
        into.copy_from_slice(&found);
        Ok(())
    }

    /// The tensors in order.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, WeightsError};

    fn layout(rows: usize) -> Layout {
        let mut layout = Layout::default();
        layout.add("pi.0.weight".into(), &[rows, 2]);
        layout.add("a".into(), &[3]);
        layout
    }

    #[test]
    fn a_turned_tensor_is_packed_in_the_order_of_its_sizes() {
        let (mut turned, mut plain) = (Layout::default(), Layout::default());
        turned.add_turned("a".into(), &[2, 3]);
        plain.add("a".into(), &[2, 3]);
        let file = turned.packed(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let (mut read, mut as_it_was) = ([0.0; 6], [0.0; 6]);
        plain.unpack(&file, &mut read).unwrap();
        assert_eq!(read, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        turned.unpack(&file, &mut as_it_was).unwrap();
        assert_eq!(as_it_was, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }

    #[test]
    fn numbers_travel_as_they_lie() {
        let values: Vec<f32> = (0..9).map(|at| at as f32 / 7.0).collect();
        let flat = layout(3).flat(&values);
        let mut read = vec![0.0; 9];
        layout(3).unpack(&flat, &mut read).unwrap();
        assert_eq!(read, values);
        let error = layout(4).unpack(&flat, &mut [0.0; 11]);
        assert_eq!(error, Err(WeightsError::Length { expected: 11, found: 9 }));
    }

    #[test]
    fn what_was_packed_is_read_again_and_nothing_else_is() {
        let values: Vec<f32> = (0..9).map(|at| at as f32 / 7.0).collect();
        let file = layout(3).packed(&values);
        let mut read = vec![0.0; 9];
        layout(3).unpack(&file, &mut read).unwrap();
        assert_eq!(read, values);
        let mut other = vec![1.0; 11];
        assert!(matches!(layout(4).unpack(&file, &mut other), Err(WeightsError::Shape { .. })));
        assert_eq!(other, [1.0; 11], "as it was");
        assert!(matches!(layout(3).unpack(&file[..20], &mut read), Err(WeightsError::Unreadable(_))));
        let mut less = Layout::default();
        less.add("a".into(), &[3]);
        assert_eq!(less.unpack(&file, &mut [0.0; 3]), Err(WeightsError::Unknown("pi.0.weight".into())));
        let mut more = layout(3);
        more.add("b".into(), &[1]);
        assert_eq!(more.unpack(&file, &mut [0.0; 10]), Err(WeightsError::Missing("b".into())));
    }
}
