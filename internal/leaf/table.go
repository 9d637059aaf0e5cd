package leaf

import "hash/maphash"

// A table finds entries by their keys: an open-addressing hash table with linear probing, at
// most half full. Compared to a map, a lookup reads one cache line less. No result depends
// on the seed, which keeps callers from choosing keys that collide.
type table struct {
	seed  maphash.Seed
	slots []slot // a power of two
	used  int
}

type slot struct {
	hash uint64
	e    *entry // nil if the slot is free
}

func newTable() table { return table{seed: maphash.MakeSeed(), slots: make([]slot, 8)} }

// find returns the entry of a key, or nil.
func (t *table) find(key string) *entry {
	h := maphash.String(t.seed, key)
	mask := uint64(len(t.slots) - 1)
	for i := h & mask; t.slots[i].e != nil; i = (i + 1) & mask {
		if s := &t.slots[i]; s.hash == h && s.e.key == key {
			return s.e
		}
	}
	return nil
}

// add adds an entry. Its key must not be in the table.
func (t *table) add(e *entry) {
	if 2*(t.used+1) > len(t.slots) {
		old := t.slots
		t.slots = make([]slot, 2*len(old))
		for _, s := range old {
			if s.e != nil {
				t.put(s)
			}
		}
	}
	t.put(slot{maphash.String(t.seed, e.key), e})
	t.used++
}

func (t *table) put(s slot) {
	mask := uint64(len(t.slots) - 1)
	i := s.hash & mask
	for t.slots[i].e != nil {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

// remove removes an entry, which is in the table.
func (t *table) remove(e *entry) {
	mask := uint64(len(t.slots) - 1)
	i := maphash.String(t.seed, e.key) & mask
	for t.slots[i].e != e {
		i = (i + 1) & mask
	}
	// Each later entry of the run moves to the gap unless it would come before its own place.
	for j := (i + 1) & mask; t.slots[j].e != nil; j = (j + 1) & mask {
		if home := t.slots[j].hash & mask; (j-home)&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = slot{}
	t.used--
}
