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

		var b bytes.Buffer
		must(t, rec.Drain(recording.NewWriter(&b, rec.Epoch())))
		in, err := recording.NewReader(&b)
		must(t, err)
		var got []recording.Record
		for {
			r, err := in.Read()
			if err == io.EOF {
				break
			}
			must(t, err)
			got = append(got, r)
		}
		slices.SortStableFunc(got, func(a, b recording.Record) int { return cmp.Or(int(a.Intended-b.Intended), int(a.Start-b.Start)) })
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
		if len(got) != len(want) {
			t.Fatalf("%d records: %+v", len(got), got)
		}
		near := func(got, want time.Duration) bool { return got <= want && got > want-200*time.Nanosecond }
		for i, w := range want {
			g, class := got[i], "jobs"
			if i >= 5 {
				class = "mail"
			}
			if !near(g.Intended, w.Intended) || !near(g.Wait, w.Wait) || !near(g.Start, w.Start) || !near(g.End, w.End) ||
				g.Inflight != w.Inflight || g.Outcome != w.Outcome || in.Names()[g.Class] != class {
				t.Errorf("%d: %+v of %s: want %+v", i, g, in.Names()[g.Class], w)
			}
		}
	})
}
