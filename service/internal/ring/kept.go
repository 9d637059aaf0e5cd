package ring

import (
	"slices"
	"time"

	"github.com/weir-go/weir/internal/slot"
)

const (
	// keepFor is for how long the state of slots is kept that was handed over.
	keepFor = 10 * time.Minute
	// maxKept bounds it, in bytes.
	maxKept = 8 << 20
)

// A keptState is the state of slots that was handed over. If the new owner is lost soon, this node
// decides by it again, so that a member that comes and goes costs one burst, and not one each time.
type keptState struct {
	slots  slot.Set
	chunks [][]byte
	bytes  int
	until  time.Duration
}

func (k *keptState) add(chunk []byte) {
	if k.bytes += len(chunk); k.bytes <= maxKept {
		k.chunks = append(k.chunks, slices.Clone(chunk))
	}
}

// keepLocked keeps a state, and drops the oldest ones that there is no room for.
func (r *Ring) keepLocked(state keptState) {
	if state.bytes > maxKept || len(state.chunks) == 0 {
		return
	}
	state.until = r.now() + keepFor
	r.kept = append(r.kept, state)
	bytes := 0
	for i := len(r.kept) - 1; i >= 0; i-- {
		if bytes += r.kept[i].bytes; bytes > maxKept {
			r.kept = slices.Delete(r.kept, 0, i+1)
			break
		}
	}
}

// recallLocked decides by the kept state of slots again.
func (r *Ring) recallLocked(slots *slot.Set) {
	r.kept = slices.DeleteFunc(r.kept, func(k keptState) bool {
		if k.until < r.now() {
			return true
		}
		if common(&k.slots, slots).Len() == 0 {
			return false
		}
		for _, chunk := range k.chunks {
			_ = r.cfg.Local.Import(chunk) // without it, buckets are full
		}
		return true
	})
}

// forget drops the kept state of slots: their owner has handed it over.
func (r *Ring) forget(slots *slot.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.kept {
		r.kept[i].slots.Remove(slots)
	}
	r.kept = slices.DeleteFunc(r.kept, func(k keptState) bool { return k.slots.Len() == 0 })
}
