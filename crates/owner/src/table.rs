//! HOT: a slab whose slots know how often they were given out.

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

pub(crate) struct Table<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Puts a value somewhere; returns slot and generation.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> (u32, u32) {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.entries[slot as usize];
            entry.value = Some(value);
            return (slot, entry.generation);
        }
        let slot = u32::try_from(self.entries.len()).expect("fewer than four billion entries");
        self.entries.push(Entry { generation: 1, value: Some(value) });
        (slot, 1)
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.entries.get(slot as usize)?.value.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_mut(slot as usize)?.value.as_mut()
    }

    #[inline]
    pub(crate) fn get_at(&mut self, slot: u32, generation: u32) -> Option<&mut T> {
        let entry = self.entries.get_mut(slot as usize)?;
        if entry.generation == generation { entry.value.as_mut() } else { None }
    }

    #[inline]
    pub(crate) fn generation(&self, slot: u32) -> u32 {
        self.entries.get(slot as usize).map_or(0, |entry| entry.generation)
    }

    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let entry = self.entries.get_mut(slot as usize)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1).max(1);
        self.free.push(slot);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// How far from the first slot an entry may lie.
    pub(crate) fn reach(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(slot, entry)| entry.value.as_ref().map(|value| (slot as u32, entry.generation, value)))
    }
}
