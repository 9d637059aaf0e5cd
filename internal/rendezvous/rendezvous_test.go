package rendezvous

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("http://weir-%d.weir:8080", i)
	}
	return list
}

func key(i int) string { return fmt.Sprintf("user:%d", i) }

// keys is the number of keys of a test.
const keys = 60_000

// checkSpread checks that counts are those of independent, equally likely outcomes: a count of
// expectation e has the standard deviation sqrt(e).
func checkSpread(t *testing.T, what string, counts []int) {
	t.Helper()
	total, members := 0, 0
	for _, n := range counts {
		if total += n; n > 0 {
			members++
		}
	}
	want := float64(total) / float64(members)
	for i, n := range counts {
		if off := math.Abs(float64(n)-want) / math.Sqrt(want); n > 0 && off > 5 {
			t.Errorf("%s: member %d has %d keys, want about %.0f", what, i, n, want)
		}
	}
}

func TestOwnersAreStable(t *testing.T) {
	s := New(names(5))
	var got []int
	for i := range 12 {
		got = append(got, s.Owner(key(i)))
	}
	// Processes of other versions and platforms have the same owners: never change this list.
	if want := []int{0, 4, 2, 1, 0, 0, 1, 3, 2, 1, 0, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestOwnersDoNotDependOnTheOrder(t *testing.T) {
	list := names(7)
	reversed := slices.Clone(list)
	slices.Reverse(reversed)
	s, r := New(list), New(reversed)
	for i := range 1000 {
		if a, b := list[s.Owner(key(i))], reversed[r.Owner(key(i))]; a != b {
			t.Fatalf("%s is owned by %s or by %s", key(i), a, b)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, n := range []int{2, 3, 5, 10, 50} {
		first, second := make([]int, n), make([]int, n)
		s := New(names(n))
		var ranks []int
		for i := range keys {
			ranks = s.Ranked(key(i), ranks[:0])
			first[ranks[0]]++
			if ranks[0] == 0 {
				second[ranks[1]]++
			}
		}
		checkSpread(t, fmt.Sprintf("%d members", n), first)
		checkSpread(t, fmt.Sprintf("%d members without the first", n), second)
	}
}

// A member that leaves gives only its own keys away, and the ranks of a key are the owners
// without the members before.
func TestLeave(t *testing.T) {
	list := names(6)
	s := New(list)
	for left := range list {
		fewer := slices.Delete(slices.Clone(list), left, left+1)
		without := New(fewer)
		for i := range 2000 {
			ranks := s.Ranked(key(i), nil)
			want := list[ranks[0]]
			if ranks[0] == left {
				want = list[ranks[1]]
			}
			if got := fewer[without.Owner(key(i))]; got != want || s.Owner(key(i)) != ranks[0] {
				t.Fatalf("%s without member %d: %s, want %s; ranks %v", key(i), left, got, want, ranks)
			}
		}
	}
}

func TestFewMembers(t *testing.T) {
	if got := new(Set).Owner("a"); got != -1 {
		t.Errorf("no members: %d", got)
	}
	if got := New([]string{"a"}).Owner("x"); got != 0 {
		t.Errorf("one member: %d", got)
	}
	if got := New([]string{"a", "a"}).Ranked("x", nil); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("equal names: %v", got)
	}
	s := New(names(10))
	if n := testing.AllocsPerRun(100, func() { s.Owner("user:7") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOwner(b *testing.B) {
	s := New(names(10))
	for b.Loop() {
		s.Owner("user:1234567")
	}
}
