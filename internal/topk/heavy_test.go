package topk

import (
	"slices"
	"testing"
)

// A few keys are counted exactly, and come out in order.
func TestFew(t *testing.T) {
	var s Sketch[string]
	for i, key := range []string{"a", "b", "b", "c", "b", "c"} {
		s.Add(uint64(key[0]), key)
		if n := len(s.AppendTo(nil)); n != min(i+1, 2) && i < 3 {
			t.Errorf("%d keys after %d", n, i+1)
		}
	}
	all := []Count[string]{{"b", 3, 0}, {"c", 2, 0}, {"a", 1, 0}}
	for n, want := range map[int][]Count[string]{-1: {}, 0: {}, 2: all[:2], 3: all, 9: all} {
		if got := Most(s.AppendTo(nil), n); !slices.Equal(got, want) {
			t.Errorf("the %d of most: %v: want %v", n, got, want)
		}
	}
}

// Whatever comes, a count is right within its bound, and no key is missed that is
// more than one in Counters of all.
func FuzzSketch(f *testing.F) {
	f.Add([]byte("abracadabra, and all that comes after it, and after that"))
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 9, 12, 9, 13, 9, 14, 9, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, keys []byte) {
		var s Sketch[byte]
		came := map[byte]uint64{}
		for _, key := range keys {
			s.Add(uint64(key)+1, key)
			came[key]++
		}
		counted := map[byte]bool{}
		for _, c := range s.AppendTo(nil) {
			counted[c.Key] = true
			if is := came[c.Key]; is > c.Count || is < c.Count-c.Over {
				t.Errorf("%d came %d times: counted %d, over by up to %d", c.Key, is, c.Count, c.Over)
			}
		}
		for key, n := range came {
			if n*Counters > uint64(len(keys)) && !counted[key] {
				t.Errorf("%d came %d times of %d, and is not counted", key, n, len(keys))
			}
		}
	})
}
