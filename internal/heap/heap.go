// Package heap keeps items in a priority queue: the least one is at hand, and any
// other can change or leave.
//
//	h := heap.New(func(a, b *lease) bool { return a.expires < b.expires }).
//		Track(func(l *lease, at int) { l.at = at })
//	h.Push(l)
//	l.expires = later
//	h.Fix(l.at)
//
// It is container/heap for one type of items, without the five methods that each
// type needs there.
package heap

// A Heap is a binary heap. Its items are in a slice, the least one first. The
// zero Heap is not usable; New makes one.
type Heap[T any] struct {
	less  func(a, b T) bool
	moved func(item T, at int) // nil if items are not tracked
	items []T
}

// New returns an empty Heap, ordered by less.
func New[T any](less func(a, b T) bool) *Heap[T] { return &Heap[T]{less: less} }

// Track makes the Heap call moved with an item's index whenever that changes, and with
// -1 when the item leaves. The index is the argument of Fix and Remove.
func (h *Heap[T]) Track(moved func(item T, at int)) *Heap[T] {
	h.moved = moved
	return h
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// Min returns the least item. It panics if there is none.
func (h *Heap[T]) Min() T { return h.items[0] }

// Items returns all items, the least one first, the others in no particular
// order. The Heap keeps the slice.
func (h *Heap[T]) Items() []T { return h.items }

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.items = append(h.items, item)
	h.rise(len(h.items)-1, item)
}

// Pop takes out the least item. It panics if there is none.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Remove takes out the item at an index.
func (h *Heap[T]) Remove(at int) T {
	items, end := h.items, len(h.items)-1
	item, last := items[at], items[end]
	clear(items[end:])
	if h.items = items[:end]; at < end {
		// What was last rarely stays near the top. It starts at a leaf below the gap,
		// which takes half the comparisons.
		for least := 2*at + 1; least < end; least = 2*at + 1 {
			if least+1 < end && h.less(items[least+1], items[least]) {
				least++
			}
			h.set(at, items[least])
			at = least
		}
		h.rise(at, last)
	}
	if h.moved != nil {
		h.moved(item, -1)
	}
	return item
}

// Fix restores the order after the item at an index has changed.
func (h *Heap[T]) Fix(at int) {
	items, item := h.items, h.items[at]
	for least := 2*at + 1; least < len(items); least = 2*at + 1 {
		if least+1 < len(items) && h.less(items[least+1], items[least]) {
			least++
		}
		if !h.less(items[least], item) {
			break
		}
		h.set(at, items[least])
		at = least
	}
	h.rise(at, item)
}

// rise puts an item at an index or, before greater items, above.
func (h *Heap[T]) rise(at int, item T) {
	items := h.items
	for at > 0 && h.less(item, items[(at-1)/2]) {
		h.set(at, items[(at-1)/2])
		at = (at - 1) / 2
	}
	h.set(at, item)
}

func (h *Heap[T]) set(at int, item T) {
	h.items[at] = item
	if h.moved != nil {
		h.moved(item, at)
	}
}
