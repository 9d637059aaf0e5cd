package heap_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-go/weir/internal/heap"
)

type item struct{ key, at int }

func newHeap() *heap.Heap[*item] {
	return heap.New(func(a, b *item) bool { return a.key < b.key }).Track(func(i *item, at int) { i.at = at })
}

// Whatever is pushed, changed and removed, the least item is at hand and every
// item knows its index.
func TestAgainstOracle(t *testing.T) {
	for seed := range uint64(200) {
		chance := rand.New(rand.NewPCG(seed, 1))
		h := newHeap()
		var all []*item
		for range 300 {
			switch op := chance.IntN(6); {
			case op < 3 || len(all) == 0:
				i := &item{key: chance.IntN(50)}
				h.Push(i)
				all = append(all, i)
			case op == 3:
				i := all[chance.IntN(len(all))]
				i.key = chance.IntN(50)
				h.Fix(i.at)
			case op == 4:
				n := chance.IntN(len(all))
				if got := h.Remove(all[n].at); got != all[n] || got.at != -1 {
					t.Fatalf("removed %v: want %v", got, all[n])
				}
				all = slices.Delete(all, n, n+1)
			default:
				i := h.Pop()
				n := slices.Index(all, i)
				for _, o := range all {
					if o.key < i.key {
						t.Fatalf("popped %d before %d", i.key, o.key)
					}
				}
				all = slices.Delete(all, n, n+1)
			}
			if h.Len() != len(all) || len(h.Items()) != len(all) {
				t.Fatalf("%d items: want %d", h.Len(), len(all))
			}
			for at, i := range h.Items() {
				if i.at != at || at > 0 && h.Items()[(at-1)/2].key > i.key {
					t.Fatalf("item %v at %d", i, at)
				}
			}
		}
	}
}

func TestUntracked(t *testing.T) {
	h := heap.New(func(a, b int) bool { return a < b })
	for _, n := range []int{5, 1, 4, 2, 3} {
		h.Push(n)
	}
	h.Items()[0] = 6
	h.Fix(0)
	var got []int
	for h.Len() > 0 {
		got = append(got, h.Min())
		h.Pop()
	}
	if want := []int{2, 3, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("%v: want %v", got, want)
	}
}

func BenchmarkPushPop(b *testing.B) {
	h := heap.New(func(a, b int) bool { return a < b })
	for n := range 1000 {
		h.Push(n * 7919 % 1000)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		h.Push(n * 7919 % 1000)
		h.Pop()
	}
}
