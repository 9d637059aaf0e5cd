package waitq

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/gcra"
)

// The room agrees with its definition, computed turn by turn and promise by promise.
func TestRoom(t *testing.T) {
	q := gcra.Per(1, time.Millisecond, 10)
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		var l Tokens[int]
		var turns []*Turn[int]
		now, b := time.Hour, gcra.Bucket(0)
		for range 1 + rng.IntN(40) {
			n := 1 + rng.IntN(10)
			next, wait, _ := q.Reserve(b, now, n, time.Hour)
			if b = next; rng.IntN(2) == 0 {
				turns = append(turns, l.Join(&q, b, n, 0))
			} else {
				l.Promise(&q, now, b, n, now+wait/time.Duration(1+rng.IntN(3)))
			}
			if rng.IntN(4) == 0 {
				now += time.Duration(rng.IntN(20)) * time.Millisecond
			}
		}
		if len(turns) == 0 || len(l.promises) == 0 {
			continue
		}
		behind := turns[rng.IntN(len(turns))]
		want, at := uint64(math.MaxUint64), l.base
		for w := l.first(); w != nil; w = w.next() {
			if at += w.gap; w.order < behind.order {
				continue
			}
			least := max(l.floor, clock(&q, now))
			for i := range l.promises {
				if l.promises[i].first < w.order {
					least = l.promises[i].bear(&q, least)
				}
			}
			least = add(least, units(&q, w.n))
			want = min(want, at-min(least, at))
		}
		if got := l.room(&q, now, behind); got != want {
			t.Fatalf("round %d: %d, want %d", round, got, want)
		}
	}
}
