//! Where each tensor of a network lies in its flat vectors.

use std::ops::Range;

/// One tensor of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// As torch would call it: `pi.0.weight`.
    pub name: String,
    /// Its sizes, the last varying fastest.
    pub shape: Vec<usize>,
    /// Where it begins in the flat vector.
    pub offset: usize,
}

impl Tensor {
    /// Its numbers in the flat vector.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.shape.iter().product::<usize>()
    }
}

/// All tensors of a network, one behind the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    tensors: Vec<Tensor>,
    len: usize,
}

impl Layout {
    /// Adds a tensor behind the others, and says where it lies.
    pub(crate) fn add(&mut self, name: String, shape: &[usize]) -> Range<usize> {
        let tensor = Tensor { name, shape: shape.to_vec(), offset: self.len };
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

    /// The tensors in order.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }
}
