package inflight_test

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/recording"
)

// records returns the records of a Recorder, in the order of their arrival.
func records(t *testing.T, rec *recording.Recorder) (all []recording.Record) {
	t.Helper()
	var b bytes.Buffer
	if err := rec.Drain(recording.NewWriter(&b, rec.Epoch())); err != nil {
		t.Fatal(err)
	}
	r, err := recording.NewReader(&b)
	for err == nil {
		var one recording.Record
		if one, err = r.Read(); err == nil {
			all = append(all, one)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	slices.SortStableFunc(all, func(a, b recording.Record) int { return int(a.Intended - b.Intended) })
	return all
}

// near is t, or a little less, as a record rounds.
func near(got, want time.Duration) bool { return got <= want && got > want-200*time.Nanosecond }

func TestARecordTellsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, err := recording.New(recording.Config{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // the Limiter is younger than the Recorder
		l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(2), Queue: 1, Recorder: rec})
		if err != nil {
			t.Fatal(err)
		}
		ctx := weir.WithClass(t.Context(), weir.Class{Route: "GET /a", Tenant: "anna"})
		p, _ := l.Acquire(ctx, 2) // at 1 s
		time.Sleep(100 * time.Millisecond)
		dated, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			p, err := l.Acquire(dated, 1) // at 1.1 s; waits for 100 ms
			if err != nil {
				t.Error(err)
			}
			time.Sleep(50 * time.Millisecond)
			p.Report(weir.Success) // the record ends here
			time.Sleep(time.Second)
			p.Release(weir.Success)
		}()
		time.Sleep(50 * time.Millisecond)
		_, err = l.Acquire(t.Context(), 1) // at 1.15 s; the queue is full
		if err == nil {
			t.Error("admitted")
		}
		time.Sleep(10 * time.Millisecond)
		if _, ok := l.TryAcquire(t.Context(), 1); ok { // at 1.16 s
			t.Error("admitted")
		}
		time.Sleep(40 * time.Millisecond)
		p.Release(weir.Dropped) // at 1.2 s
		time.Sleep(10 * time.Millisecond)
		q, _ := l.TryAcquire(t.Context(), 1) // at 1.21 s
		gone, leave := context.WithCancel(t.Context())
		go func() {
			time.Sleep(20 * time.Millisecond)
			leave()
		}()
		time.Sleep(10 * time.Millisecond)
		if _, err := l.Acquire(gone, 1); err != context.Canceled { // at 1.22 s; leaves at 1.23 s
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		q.Abandon(context.DeadlineExceeded)

		const ms = time.Millisecond
		want := []recording.Record{
			{Intended: 1000 * ms, Start: 1000 * ms, End: 1200 * ms, Inflight: 2, Class: 1, Tenant: 1, Outcome: recording.Ended(weir.Dropped)},
			{Intended: 1100 * ms, Wait: 100 * ms, Start: 1200 * ms, End: 1250 * ms, Inflight: 1, Deadline: 61100 * ms, Outcome: recording.Ended(weir.Success)},
			{Intended: 1150 * ms, Start: 1150 * ms, End: 1150 * ms, Inflight: 2, Outcome: recording.Rejected(weir.QueueFull)},
			{Intended: 1160 * ms, Start: 1160 * ms, End: 1160 * ms, Inflight: 2, Outcome: recording.Rejected(weir.OverLimit)},
			{Intended: 1210 * ms, Start: 1210 * ms, End: 3230 * ms, Inflight: 2, Outcome: recording.Ended(outcome.TimedOut)},
			{Intended: 1220 * ms, Start: 1230 * ms, End: 1230 * ms, Wait: 10 * ms, Inflight: 2, Outcome: recording.Cancelled},
		}
		got := records(t, rec)
		if len(got) != len(want) {
			t.Fatalf("%d records: %+v", len(got), got)
		}
		for i, w := range want {
			g := got[i]
			if !near(g.Intended, w.Intended) || !near(g.Start, w.Start) || !near(g.End, w.End) || !near(g.Wait, w.Wait) || w.Deadline > 0 && !near(g.Deadline, w.Deadline) {
				t.Errorf("%d: times %+v: want %+v", i, g, w)
			}
			if g.Inflight != w.Inflight || g.Outcome != w.Outcome || g.Class != w.Class || g.Tenant != w.Tenant || (g.Deadline == 0) != (w.Deadline == 0) {
				t.Errorf("%d: %+v: want %+v", i, g, w)
			}
		}
	})
}

// Every request has one record, whether its admission is timed or not, and whether Observe sees it too.
func TestEachRequestHasOneRecord(t *testing.T) {
	for _, observed := range []bool{false, true} {
		rec, err := recording.New(recording.Config{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := inflight.Config{Algorithm: limit.Fixed(3), Queue: -1, Recorder: rec}
		if observed {
			cfg.Observe = func(context.Context, int, time.Duration, error) func(weir.Outcome) { return nil }
		}
		l, err := inflight.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		const n = 10_000
		for i := range n {
			p, err := l.Acquire(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				p.Use(2)
			}
			p.Release(weir.Success)
		}
		all := records(t, rec)
		if len(all) != n {
			t.Fatalf("observed %v: %d records of %d", observed, len(all), n)
		}
		for i, r := range all {
			if r.Inflight != 1 || !r.Outcome.Success() || r.End < r.Start || i > 0 && r.Start < all[i-1].Start {
				t.Fatalf("observed %v, %d: %+v", observed, i, r)
			}
		}
		if s := l.Stats(); s.Inflight != 0 || s.Outcomes[weir.Success] != n {
			t.Errorf("%+v", s)
		}
	}
}

func TestARecordedAdmissionDoesNotAllocate(t *testing.T) {
	rec, err := recording.New(recording.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(3), Queue: -1, Recorder: rec})
	if err != nil {
		t.Fatal(err)
	}
	ctx := weir.WithClass(t.Context(), weir.Class{Route: "GET /a", Tenant: "anna"})
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := l.Acquire(ctx, 3)
		_, _ = l.Acquire(ctx, 1)
		p.Release(weir.Success)
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

func TestACopyOfARecordedPermitPanics(t *testing.T) {
	rec, err := recording.New(recording.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(3), Recorder: rec})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := l.Acquire(t.Context(), 1)
	kept := copied(&p)
	p.Release(weir.Success)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	kept.Release(weir.Success)
}
