package assign

// holdings have the assignments of a leaf by the fingerprints of their keys: a hash table
// with linear probing. The zero value is empty.
//
// A map would take two cache misses, and the processor could not fetch them ahead.
type holdings struct {
	slots []heldSlot // a power of two, at most two thirds are used
	n     int
}

type heldSlot struct {
	print   uint64
	holding *holding // nil: the slot is free
}

// leastSlots is the least number of slots, unless there are none.
const leastSlots = 8

// home returns the slot at which the search for a fingerprint begins. There are slots.
func (t *holdings) home(print uint64) int { return int(print & uint64(len(t.slots)-1)) }

// at returns the slot of a fingerprint, or the free one where it belongs. There are slots.
func (t *holdings) at(print uint64) int {
	i := t.home(print)
	for t.slots[i].holding != nil && t.slots[i].print != print {
		i = (i + 1) & (len(t.slots) - 1)
	}
	return i
}

// get returns an assignment, or nil.
func (t *holdings) get(print uint64) *holding {
	if t.n == 0 {
		return nil
	}
	return t.slots[t.at(print)].holding
}

// add adds an assignment that is not there.
func (t *holdings) add(h *holding) {
	if t.n++; 3*t.n > 2*len(t.slots) {
		t.resize(max(2*len(t.slots), leastSlots))
	}
	t.slots[t.at(h.print)] = heldSlot{h.print, h}
}

// remove removes an assignment that is there.
func (t *holdings) remove(h *holding) {
	i := t.at(h.print)
	// Later assignments move to the gap unless their search begins after it (Knuth, The Art of
	// Computer Programming, 6.4, algorithm R).
	mask := len(t.slots) - 1
	for j := (i + 1) & mask; t.slots[j].holding != nil; j = (j + 1) & mask {
		if home := t.home(t.slots[j].print); (j-home)&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = heldSlot{}
	if t.n--; len(t.slots) > leastSlots && 8*t.n < len(t.slots) {
		t.resize(len(t.slots) / 2)
	}
}

func (t *holdings) resize(slots int) {
	old := t.slots
	t.slots = make([]heldSlot, slots)
	for _, s := range old {
		if s.holding != nil {
			t.slots[t.at(s.print)] = s
		}
	}
}

// all returns all assignments. It is not nil.
func (t *holdings) all() []*holding {
	all := make([]*holding, 0, t.n)
	for _, s := range t.slots {
		if s.holding != nil {
			all = append(all, s.holding)
		}
	}
	return all
}

// next returns the index of the first assignment at or after a slot, from the first slot on if
// there is none. There are assignments.
func (t *holdings) next(from int) int {
	for i := from; i < len(t.slots); i++ {
		if t.slots[i].holding != nil {
			return i
		}
	}
	return t.next(0)
}
