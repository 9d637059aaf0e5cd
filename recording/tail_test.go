package recording

import (
	"bytes"
	"io"
	"math"
	"slices"
	"testing"
	"time"
)

// tailed returns what a Copy writes.
func tailed(t *testing.T, tail *Tail, since time.Duration) (*Reader, []int) {
	var b bytes.Buffer
	if err := tail.Copy(NewWriter(&b, epoch), since); err != nil {
		t.Fatal(err)
	}
	in, all, err := readAll(t, &b)
	if err != io.EOF {
		t.Fatal(err)
	}
	ids := []int{}
	for _, one := range all {
		ids = append(ids, one.Inflight)
	}
	slices.Sort(ids)
	return in, ids
}

// Each Tail reads what is kept, and then what comes. Neither Drain nor another Tail takes it away.
func TestTailsDoNotDisturbEachOther(t *testing.T) {
	r := recorder(t, 6400)
	add := func(from, to int) {
		for i := from; i < to; i++ {
			r.Add(&Record{Inflight: i, Class: r.Class("a"), Start: time.Duration(i) * time.Second, End: time.Duration(i) * time.Second})
		}
	}
	add(1, 100)
	if _, all := drained(t, r); len(all) != 99 {
		t.Fatalf("%d records", len(all))
	}
	a := r.Tail()
	in, got := tailed(t, a, 50*time.Second)
	if len(got) != 50 || got[0] != 50 || got[49] != 99 || in.Names()[1] != "a" {
		t.Errorf("%v, %v", got, in.Names())
	}
	add(100, 110)
	if _, got := tailed(t, a, 0); len(got) != 10 || got[0] != 100 {
		t.Errorf("%v", got)
	}
	if _, got := tailed(t, r.Tail(), 0); len(got) != 109 {
		t.Errorf("%d records", len(got))
	}
	if _, all := drained(t, r); len(all) != 10 || r.Lost() != 0 || a.Lost() != 0 {
		t.Errorf("%d records, %d and %d lost", len(all), r.Lost(), a.Lost())
	}
}

// A Tail counts what has been overwritten since it began, and says so in the file.
func TestATailCountsWhatItHasLost(t *testing.T) {
	r := recorder(t, 640)
	for range 10_000 {
		r.Add(&Record{})
	}
	tail := r.Tail()
	if _, got := tailed(t, tail, math.MinInt64); len(got) < 640 || tail.Lost() != 0 {
		t.Errorf("%d records, %d lost", len(got), tail.Lost())
	}
	for range 10_000 {
		r.Add(&Record{})
	}
	in, got := tailed(t, tail, math.MinInt64)
	if uint64(len(got))+tail.Lost() != 10_000 || in.Lost() != tail.Lost() || tail.Lost() == 0 {
		t.Errorf("%d records, %d lost", len(got), tail.Lost())
	}
}
