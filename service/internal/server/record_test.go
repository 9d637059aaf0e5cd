package server_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Each lease has a record when it ends, and so has each request that gets none; with the rule as its class.
func TestALeaseHasARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		rec, err := recording.New(recording.Config{})
		must(t, err)
		time.Sleep(time.Second) // the server is younger than the Recorder
		s, err := server.New(server.Config{Recorder: rec, Rules: &config.Rules{Rules: []config.Rule{
			{Name: "jobs", Glob: "job:*", Concurrency: &config.Concurrency{Limit: 2, TTL: 10 * time.Second, MaxTTL: time.Minute, Queue: new(1), MaxWait: time.Second}},
			{Name: "mail", Glob: "mail:*", Quota: config.Quota{Rate: config.Rate{Count: 1, Period: time.Second}}, Queue: new(1), MaxWait: 5 * time.Second},
		}}})
		must(t, err)
		lease := func(ctx context.Context, n int) decider.Lease {
			l, _ := s.Acquire(ctx, decider.LeaseRequest{Key: "job:1", N: n, Wait: true})
			return l
		}
		a := lease(t.Context(), 2) // at 1 s
		go func() {
			time.Sleep(100 * ms)
			b := lease(t.Context(), 1) // waits for 200 ms
			time.Sleep(50 * ms)
			must(t, s.Return(t.Context(), "job:1", b.ID, weir.Dropped))
		}()
		time.Sleep(150 * ms)
		lease(t.Context(), 1) // the queue is full
		time.Sleep(150 * ms)
		must(t, s.Return(t.Context(), "job:1", a.ID, weir.Success)) // at 1.3 s
		time.Sleep(time.Second)
		lease(t.Context(), 2) // at 2.3 s; expires
		gone, leave := context.WithTimeout(t.Context(), 20*ms)
		defer leave()
		time.Sleep(ms)
		lease(gone, 1) // leaves
		time.Sleep(time.Minute)

		wait := func(ctx context.Context) {
			var v decider.Verdict
			_ = s.Wait(ctx, &decider.Request{Key: "mail:1", N: 1}, &v)
		}
		start := rec.Now()
		wait(t.Context())
		go wait(t.Context()) // waits for 1 s
		time.Sleep(ms)
		wait(t.Context()) // the queue is full
		time.Sleep(time.Minute)

		got, names := recorded(t, rec)
		want := []recording.Record{
			{Intended: 1000 * ms, Start: 1000 * ms, End: 1300 * ms, Inflight: 2, Outcome: recording.Ended(weir.Success)},
			{Intended: 1100 * ms, Wait: 200 * ms, Start: 1300 * ms, End: 1350 * ms, Inflight: 1, Outcome: recording.Ended(weir.Dropped)},
			{Intended: 1150 * ms, Start: 1150 * ms, End: 1150 * ms, Inflight: 2, Outcome: recording.Rejected(weir.QueueFull)},
			{Intended: 2300 * ms, Start: 2300 * ms, End: 12300 * ms, Inflight: 2, Outcome: recording.Ended(weir.Ignored)},
			{Intended: 2301 * ms, Wait: 19 * ms, Start: 2320 * ms, End: 2320 * ms, Inflight: 2, Outcome: recording.Cancelled},
			{Intended: start, Start: start, End: start, Outcome: recording.Allowed},
			{Intended: start, Wait: time.Second, Start: start + time.Second, End: start + time.Second, Outcome: recording.Allowed},
			{Intended: start + ms, Start: start + ms, End: start + ms, Outcome: recording.Rejected(weir.QueueFull)},
		}
		sameRecords(t, got, want, 0)
		for i, g := range got {
			class := "jobs"
			if i >= 5 {
				class = "mail"
			}
			if names[g.Class] != class {
				t.Errorf("%d: %s", i, names[g.Class])
			}
		}
	})
}

// sameRecords compares records, but for their classes; the instants of want count from start.
func sameRecords(t *testing.T, got, want []recording.Record, start time.Duration) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records: %+v", len(got), got)
	}
	near := func(got, want time.Duration) bool { return got <= want && got > want-200*time.Nanosecond }
	for i, w := range want {
		g := got[i]
		if !near(g.Intended, start+w.Intended) || !near(g.Wait, w.Wait) || !near(g.Start, start+w.Start) || !near(g.End, start+w.End) ||
			g.Inflight != w.Inflight || g.Outcome != w.Outcome {
			t.Errorf("%d: %+v: want %+v after %v", i, g, w, start)
		}
	}
}

// recorded returns the records of a Recorder in the order of arrival, and the names of their classes.
func recorded(t *testing.T, rec *recording.Recorder) (got []recording.Record, names map[uint16]string) {
	t.Helper()
	var b bytes.Buffer
	must(t, rec.Drain(recording.NewWriter(&b, rec.Epoch())))
	in, err := recording.NewReader(&b)
	must(t, err)
	for {
		r, err := in.Read()
		if err == io.EOF {
			break
		}
		must(t, err)
		got = append(got, r)
	}
	slices.SortStableFunc(got, func(a, b recording.Record) int { return cmp.Or(int(a.Intended-b.Intended), int(a.Start-b.Start)) })
	return got, in.Names()
}

// A lease of an upstream has a record if it is returned where it was granted, and so has each request that gets none.
func TestALeaseOfATierHasARecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ms = time.Millisecond
		up := newDesk(t, server.Config{}, config.Rule{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 2, TTL: 10 * time.Second, MaxTTL: time.Minute, Queue: new(1), MaxWait: time.Second}})
		rec, err := recording.New(recording.Config{})
		must(t, err)
		w := &wire{Decider: up.Server}
		z, err := server.NewTier(server.Config{Rules: up.Rules(), Recorder: rec}, server.TierConfig{Name: "z", Upstream: w, Assigner: assigner{w}})
		must(t, err)
		defer func() { _ = z.Disconnect(t.Context()) }()
		time.Sleep(time.Second)
		lease := func(key string) decider.Lease {
			l, _ := z.Acquire(t.Context(), decider.LeaseRequest{Key: key, N: 2})
			return l
		}
		start := rec.Now()
		a := lease("a")
		lease("a")
		elsewhere, expired := lease("b"), lease("c")
		time.Sleep(100 * ms)
		must(t, z.Return(t.Context(), "a", a.ID, weir.Dropped))
		must(t, up.Server.Return(t.Context(), "b", elsewhere.ID, weir.Success))
		w.cut.Store(true)
		alone := lease("d")
		time.Sleep(50 * ms)
		must(t, z.Return(t.Context(), "d", alone.ID, weir.Success))
		w.cut.Store(false)
		time.Sleep(time.Minute)
		if err := z.Return(t.Context(), "c", expired.ID, weir.Success); err != decider.ErrNoLease {
			t.Error(err)
		}
		got, _ := recorded(t, rec)
		want := []recording.Record{
			{Wait: hop, Start: hop, End: 4*hop + 100*ms, Inflight: 2, Outcome: recording.Ended(weir.Dropped)},
			{Intended: hop, Wait: hop, Start: 2 * hop, End: 2 * hop, Inflight: 2, Outcome: recording.Rejected(weir.OverLimit)},
			{Intended: 116 * ms, Wait: 100 * ms, Start: 216 * ms, End: 266 * ms, Inflight: 6, Outcome: recording.Ended(weir.Success)}, // b and c have not expired here
		}
		sameRecords(t, got, want, start)
	})
}
