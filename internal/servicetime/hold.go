package servicetime

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/heap"
)

// Holds keep the units of abandoned work in flight until the work has probably ended. The
// zero Holds are empty.
type Holds struct {
	units int
	holds *heap.Heap[Hold] // the first to end first; nil if there was none yet
	// The 99th percentile of successful work when holds were last shortened, or
	// what it has risen to since, and the successes since the last look at it.
	reviewed   time.Duration
	unreviewed int
}

// A Hold keeps the units of one abandoned work.
type Hold struct {
	Units     int
	Partition int

	start time.Duration // of the work
	age   time.Duration // of the work when it was abandoned
	until time.Duration
}

// Units returns the units of all holds.
func (h *Holds) Units() int { return h.units }

// Add holds the units of work that began at start and is abandoned now, and reports whether it does: the work could still
// be going on. Each Hold has a unit at least, so their number is bounded.
func (h *Holds) Add(took *Histogram, start, now time.Duration, units, partition int) bool {
	age := now - start
	took.AddAbandoned(age)
	until := After(start, took.Lasts(age))
	if units == 0 || until <= now {
		return false
	}
	if h.units == 0 {
		h.review(took)
	}
	h.push(Hold{units, partition, start, age, until})
	h.units += units
	return true
}

func (h *Holds) push(one Hold) {
	if h.holds == nil {
		h.holds = heap.New(func(a, b Hold) bool { return a.until < b.until })
	}
	h.holds.Push(one)
}

// Ended ends a Hold that is over, if there is one.
func (h *Holds) Ended(now time.Duration) (over Hold, ok bool) {
	if h.units == 0 || h.holds.Min().until > now {
		return Hold{}, false
	}
	over = h.holds.Pop()
	h.units -= over.Units
	return over, true
}

// Next returns when the next Hold is over, or weir.Never.
func (h *Holds) Next() time.Duration {
	if h.units == 0 {
		return weir.Never
	}
	return h.holds.Min().until
}

const (
	reviewAfter = 16
	reviewShare = 1.0 / 16
)

// Succeeded counts a success. The holds are reviewed after reviewAfter of them, or after
// reviewShare of the known samples.
func (h *Holds) Succeeded(took *Histogram) {
	if h.units == 0 {
		return
	}
	h.unreviewed++
	if h.unreviewed >= reviewAfter || float32(h.unreviewed) >= took.Known()*reviewShare {
		h.review(took)
	}
}

// review shortens the holds if work has become faster by an eighth since the last time that
// it did.
func (h *Holds) review(took *Histogram) {
	h.unreviewed = 0
	p99 := took.P99()
	if p99 >= h.reviewed-h.reviewed/8 {
		h.reviewed = max(h.reviewed, p99)
		if h.units == 0 {
			h.reviewed = p99
		}
		return
	}
	h.reviewed = p99
	if h.units == 0 {
		return
	}
	held := h.holds.Items()
	h.holds = nil
	for _, one := range held {
		one.until = min(one.until, After(one.start, took.Lasts(one.age)))
		h.push(one)
	}
}

// After returns the instant that is d after t, or weir.Never if that is beyond the end of the clock.
func After(t, d time.Duration) time.Duration {
	if d > 0 && t > weir.Never-d {
		return weir.Never
	}
	return t + d
}
