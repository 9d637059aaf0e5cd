package leaf

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A table finds what a map finds.
func TestTable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	got, want := newTable(), map[string]*entry{}
	for range 20_000 {
		key := fmt.Sprint(rnd.IntN(300))
		switch e := want[key]; {
		case e == nil:
			want[key] = &entry{key: key}
			got.add(want[key])
		case rnd.IntN(2) == 0:
			got.remove(e)
			delete(want, key)
		}
		other := fmt.Sprint(rnd.IntN(300))
		if got.find(other) != want[other] {
			t.Fatalf("key %s: %p, want %p", other, got.find(other), want[other])
		}
	}
	if got.used != len(want) {
		t.Errorf("%d entries, want %d", got.used, len(want))
	}
}
