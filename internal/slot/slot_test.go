package slot_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/weir-go/weir/internal/slot"
)

// The slots of keys are part of the protocol between clients and servers: they never change.
func TestOf(t *testing.T) {
	for text, want := range map[string]uint16{"": 21292, "user:42": 12429, "tenant/a/route/b": 29455} {
		if got := slot.Of(text); got != want {
			t.Errorf("%q is in slot %d: want %d", text, got, want)
		}
	}
}

func TestSlotsAreEven(t *testing.T) {
	const keys = 1 << 18
	var n [slot.Count]int
	for i := range keys {
		n[slot.Of(fmt.Sprintf("user:%d", i))]++
	}
	chi, mean := 0.0, float64(keys)/slot.Count
	for _, n := range n {
		chi += (float64(n) - mean) * (float64(n) - mean) / mean
	}
	if off := (chi - slot.Count) / math.Sqrt(2*slot.Count); math.Abs(off) > 5 {
		t.Errorf("χ² is %.0f: %.1f standard deviations from %d", chi, off, slot.Count)
	}
}

func TestSet(t *testing.T) {
	var s, other slot.Set
	for _, i := range []uint16{0, 63, 64, 65535} {
		if s.Has(i) {
			t.Errorf("the empty set has %d", i)
		}
		s.Add(i)
		if !s.Has(i) {
			t.Errorf("%d is missing", i)
		}
	}
	if s.Has(1) || s.Len() != 4 {
		t.Errorf("%d slots, 1: %v", s.Len(), s.Has(1))
	}
	other.Add(64)
	other.Add(7)
	if s.Union(&other); s.Len() != 5 || !s.Has(7) {
		t.Errorf("the union has %d slots", s.Len())
	}
	if s.Remove(&other); s.Len() != 3 || s.Has(64) || s.Has(7) {
		t.Errorf("the difference has %d slots", s.Len())
	}
	if n := slot.All().Len(); n != slot.Count {
		t.Errorf("all are %d", n)
	}
}

func BenchmarkOf(b *testing.B) {
	for b.Loop() {
		slot.Of("tenant:4711/user:42")
	}
}
