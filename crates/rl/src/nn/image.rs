//! Pictures: how a layer's filter is laid over one, so that a product of matrices is left to do.
//!
//! A picture is a row of numbers: rows of pixels, in each pixel its channels. What comes out of filters is a picture again.

use serde::{Deserialize, Serialize};

use super::Real;

/// Pictures and the filters that are laid over them, one layer behind the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct ImageSpec {
    height: usize,
    width: usize,
    channels: usize,
    /// Of each layer: channels that come out, the filter's height and width, and how far apart two places of it are.
    conv_filters: Vec<[usize; 3]>,
    /// Whether pictures are continued with zeros so that a filter may be laid over their borders.
    is_padded: bool,
}

#[derive(Deserialize)]
struct Unchecked {
    height: usize,
    width: usize,
    channels: usize,
    conv_filters: Vec<[usize; 3]>,
    #[serde(default)]
    is_padded: bool,
}

/// Why filters do not fit a picture.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImageError {
    /// There is nothing to lay a filter over.
    #[error("a picture of {0} x {1} pixels with {2} channels is empty")]
    Empty(usize, usize, usize),
    /// No filter at all.
    #[error("conv_filters is empty")]
    None,
    /// A filter has no size, no step or no channels.
    #[error("each of conv_filters is [channels, kernel, stride], all above 0, not {0:?}")]
    Filter([usize; 3]),
    /// A filter is larger than what is left of the picture.
    #[error("a filter of {kernel} x {kernel} does not fit what layer {layer} gets: {height} x {width} pixels")]
    TooLarge {
        /// The layer, from 0.
        layer: usize,
        /// The filter's height and width.
        kernel: usize,
        /// Of the picture there.
        height: usize,
        /// Of the picture there.
        width: usize,
    },
}

impl TryFrom<Unchecked> for ImageSpec {
    type Error = ImageError;

    fn try_from(it: Unchecked) -> Result<Self, ImageError> {
        Self::new([it.height, it.width, it.channels], it.conv_filters, it.is_padded)
    }
}

impl ImageSpec {
    /// Filters over pictures of this height, width and number of channels.
    pub fn new(
        [height, width, channels]: [usize; 3],
        conv_filters: Vec<[usize; 3]>,
        is_padded: bool,
    ) -> Result<Self, ImageError> {
        if height == 0 || width == 0 || channels == 0 {
            return Err(ImageError::Empty(height, width, channels));
        }
        if conv_filters.is_empty() {
            return Err(ImageError::None);
        }
        if let Some(filter) = conv_filters.iter().find(|filter| filter.contains(&0)) {
            return Err(ImageError::Filter(*filter));
        }
        let spec = Self { height, width, channels, conv_filters, is_padded };
        let mut picture = [height, width];
        for (layer, (filter, patches)) in spec.conv_filters.iter().zip(spec.layers()).enumerate() {
            let [height, width] = picture;
            if !is_padded && filter[1] > height.min(width) {
                return Err(ImageError::TooLarge { layer, kernel: filter[1], height, width });
            }
            picture = [patches.down, patches.across];
        }
        Ok(spec)
    }

    /// Numbers per picture.
    #[must_use]
    pub fn size(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// How each layer's filter is laid, in order.
    pub(crate) fn layers(&self) -> impl Iterator<Item = Patches> {
        let mut before = [self.height, self.width, self.channels];
        self.conv_filters.iter().map(move |[outputs, kernel, step]| {
            let patches = Patches::new(before, *kernel, *step, self.is_padded);
            before = [patches.down, patches.across, *outputs];
            patches
        })
    }

    /// Channels that come out of each layer, in order.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = usize> {
        self.conv_filters.iter().map(|[outputs, _, _]| *outputs)
    }
}

/// Where a filter is laid over a picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patches {
    height: usize,
    width: usize,
    channels: usize,
    pub(crate) kernel: usize,
    step: usize,
    /// Zeros above and left of the picture.
    above: usize,
    left: usize,
    /// Places from top to bottom, and from left to right.
    down: usize,
    across: usize,
}

impl Patches {
    fn new([height, width, channels]: [usize; 3], kernel: usize, step: usize, is_padded: bool) -> Self {
        let places = |size: usize| {
            if is_padded { size.div_ceil(step) } else { (size + step).saturating_sub(kernel) / step }
        };
        let (down, across) = (places(height), places(width));
        // As many zeros on both sides; the odd one right or below.
        let zeros = |size: usize, places: usize| ((places.max(1) - 1) * step + kernel).saturating_sub(size) / 2;
        Self {
            height,
            width,
            channels,
            kernel,
            step,
            above: if is_padded { zeros(height, down) } else { 0 },
            left: if is_padded { zeros(width, across) } else { 0 },
            down,
            across,
        }
    }

    /// Numbers per picture.
    pub(crate) fn inputs(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Channels of the picture.
    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    /// Places of the filter on a picture.
    pub(crate) fn places(&self) -> usize {
        self.down * self.across
    }

    /// Numbers under the filter at one place.
    pub(crate) fn size(&self) -> usize {
        self.kernel * self.kernel * self.channels
    }

    /// Of each line of each place, in order: where it begins in the picture and in the patch and how long it is, without what lies beyond the picture.
    fn each_line(&self, mut line: impl FnMut(usize, usize, usize)) {
        let clip = |begin: usize, before: usize, size: usize| {
            (before.saturating_sub(begin), (size + before).saturating_sub(begin).min(self.kernel))
        };
        for place in 0..self.places() {
            let (y, x) = (place / self.across * self.step, place % self.across * self.step);
            let (top, bottom) = clip(y, self.above, self.height);
            let (first, behind) = clip(x, self.left, self.width);
            for row in top..bottom {
                let in_picture = ((y + row - self.above) * self.width + x + first - self.left) * self.channels;
                let in_patch = ((place * self.kernel + row) * self.kernel + first) * self.channels;
                line(in_picture, in_patch, behind.saturating_sub(first) * self.channels);
            }
        }
    }

    /// Writes down what lies under the filter at each place of these pictures, a row each.
    pub(crate) fn cut<T: Real>(&self, pictures: &[T], into: &mut Vec<T>) {
        let (size, patches) = (self.inputs(), self.places() * self.size());
        into.clear();
        into.resize(pictures.len() / size * patches, T::ZERO);
        for (picture, into) in pictures.chunks_exact(size).zip(into.chunks_exact_mut(patches)) {
            self.each_line(|from, to, length| into[to..to + length].copy_from_slice(&picture[from..from + length]));
        }
    }

    /// Adds to each pixel what is written for it, at all places at which it lies under the filter.
    pub(crate) fn join<T: Real>(&self, patches: &[T], pictures: &mut [T]) {
        let size = self.places() * self.size();
        for (picture, patches) in pictures.chunks_exact_mut(self.inputs()).zip(patches.chunks_exact(size)) {
            self.each_line(|to, from, length| {
                let pixels = picture[to..to + length].iter_mut();
                pixels.zip(&patches[from..from + length]).for_each(|(pixel, part)| *pixel += *part);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ImageError, ImageSpec, Patches};

    proptest! {
        #[test]
        fn patches_are_those_of_the_definition(
            (height, width, channels) in (1..7_usize, 1..7_usize, 1..3_usize),
            (kernel, step, is_padded) in (1..5_usize, 1..4_usize, any::<bool>()),
        ) {
            prop_assume!(is_padded || kernel <= height.min(width));
            let patches = Patches::new([height, width, channels], kernel, step, is_padded);
            let pictures: Vec<f64> = (0..2 * patches.inputs()).map(|at| at as f64 + 1.0).collect();
            let mut found = Vec::new();
            patches.cut(&pictures, &mut found);
            let pad = |size: usize, places: usize| ((places - 1) * step + kernel).saturating_sub(size) as isize / 2;
            let count = |size: usize| if is_padded { size.div_ceil(step) } else { (size - kernel) / step + 1 };
            let (down, across) = (count(height), count(width));
            let (above, left) =
                if is_padded { (pad(height, down), pad(width, across)) } else { (0, 0) };
            let mut expected = Vec::new();
            for picture in pictures.chunks_exact(patches.inputs()) {
                for (place_y, place_x) in (0..down).flat_map(|y| (0..across).map(move |x| (y, x))) {
                    for (row, column) in (0..kernel).flat_map(|y| (0..kernel).map(move |x| (y, x))) {
                        let y = (place_y * step + row) as isize - above;
                        let x = (place_x * step + column) as isize - left;
                        for channel in 0..channels {
                            let is_inside = (0..height as isize).contains(&y) && (0..width as isize).contains(&x);
                            let at = (y * width as isize + x) * channels as isize + channel as isize;
                            expected.push(if is_inside { picture[at as usize] } else { 0.0 });
                        }
                    }
                }
            }
            prop_assert_eq!(&found, &expected);

            // Joining is cutting the other way round: <cut(p), q> = <p, join(q)>.
            let other: Vec<f64> = (0..found.len()).map(|at| (at % 7) as f64 - 3.0).collect();
            let mut joined = vec![0.0; pictures.len()];
            patches.join(&other, &mut joined);
            let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            prop_assert_eq!(product(&found, &other), product(&pictures, &joined));
        }
    }

    #[test]
    fn filters_that_do_not_fit_are_refused() {
        let made = |filters: &[[usize; 3]], is_padded| ImageSpec::new([10, 5, 1], filters.to_vec(), is_padded);
        assert!(made(&[[4, 3, 1], [8, 3, 1]], false).is_ok());
        let too_large = ImageError::TooLarge { layer: 1, kernel: 4, height: 8, width: 3 };
        assert_eq!(made(&[[4, 3, 1], [8, 4, 1]], false), Err(too_large));
        assert!(made(&[[4, 3, 1], [8, 4, 1]], true).is_ok());
        assert_eq!(made(&[[4, 3, 0]], true), Err(ImageError::Filter([4, 3, 0])));
        assert_eq!(made(&[], true), Err(ImageError::None));
        let text = r#"{"height": 2, "width": 2, "channels": 0, "conv_filters": [[1, 1, 1]]}"#;
        let error = serde_json::from_str::<ImageSpec>(text).unwrap_err().to_string();
        assert_eq!(error, "a picture of 2 x 2 pixels with 0 channels is empty");
    }
}
