package httplimit

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/recording"
)

func newRecorder(t testing.TB) *recording.Recorder {
	rec, err := recording.New(recording.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// recorded returns the records by their arrival, and the names of their classes.
func recorded(t *testing.T, rec *recording.Recorder) (all []recording.Record, names map[uint16]string) {
	t.Helper()
	var b bytes.Buffer
	if err := rec.Drain(recording.NewWriter(&b, rec.Epoch())); err != nil {
		t.Fatal(err)
	}
	r, err := recording.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	for {
		one, err := r.Read()
		if err != nil {
			break
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b recording.Record) int { return int(a.Intended - b.Intended) })
	return all, r.Names()
}

// Whatever becomes of a request, it has one record, with its class.
func TestARecordTellsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := newRecorder(t)
		one := func(string) weir.Limiter {
			l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), Queue: 1})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /jobs/{id}", func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) })
		mux.HandleFunc("GET /busy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
		mux.HandleFunc("GET /events", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			time.Sleep(10 * time.Millisecond)
			w.WriteHeader(200)
			time.Sleep(time.Hour)
		})
		limited := rate.New(gcra.PerSecond(1, 5), rate.Config{})
		m := middleware(t, Config{Rules: []Rule{Overall("all", limited)}, PerClass: one, Recorder: rec})
		h := m.Handler(mux)
		get := func(path string, ctx context.Context) {
			h.ServeHTTP(&blank{http.Header{}}, testrig.Request("GET", path).WithContext(ctx))
		}
		const ms = time.Millisecond
		step := func() { time.Sleep(10 * ms) }
		dated, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go get("/jobs/1", dated)       // at 0
		step()                         //
		go get("/jobs/2", t.Context()) // at 10 ms, waits for 90 ms
		step()                         //
		get("/jobs/3", t.Context())    // at 20 ms, the queue is full
		step()                         //
		get("/busy", t.Context())      // at 30 ms
		step()                         //
		go get("/events", t.Context()) // at 40 ms, for an hour
		step()                         //
		get("/busy", t.Context())      // at 50 ms
		step()                         //
		get("/busy", t.Context())      // at 60 ms: the sixth
		time.Sleep(2 * time.Hour)

		type want struct {
			class               string
			arrival, wait, work time.Duration
			inflight            int
			outcome             recording.Outcome
			dated               bool
		}
		got, names := recorded(t, rec)
		for i, w := range []want{
			{"GET /jobs/{id}", 0, 0, 100 * ms, 1, recording.Ended(weir.Success), true},
			{"GET /jobs/{id}", 10 * ms, 90 * ms, 100 * ms, 1, recording.Ended(weir.Success), false},
			{"GET /jobs/{id}", 20 * ms, 0, 0, 1, recording.Rejected(weir.QueueFull), false},
			{"GET /busy", 30 * ms, 0, 0, 1, recording.Ended(weir.Dropped), false},
			{"GET /events", 40 * ms, 0, 10 * ms, 1, recording.Ended(weir.Success), false},
			{"GET /busy", 50 * ms, 0, 0, 1, recording.Ended(weir.Dropped), false},
			{"GET /busy", 60 * ms, 0, 0, 0, recording.Rejected(weir.OverRate), false},
		} {
			if i >= len(got) {
				t.Fatalf("%d records", len(got))
			}
			r := got[i]
			if (want{names[r.Class], r.Intended.Round(ms), r.Wait.Round(ms), r.Response().Round(ms), r.Inflight, r.Outcome, r.Deadline > 0}) != w {
				t.Errorf("%d: class %s, %+v: want %+v", i, names[r.Class], r, w)
			}
		}
		if len(got) != 7 {
			t.Errorf("%d records", len(got))
		}
	})
}

// Without limits, requests are recorded too.
func TestARecorderNeedsNoLimit(t *testing.T) {
	rec := newRecorder(t)
	s := newSite(t, Config{Recorder: rec}, nil)
	s.get(200, "/a")
	s.get(200, "/healthz") // exempt
	got, _ := recorded(t, rec)
	if len(got) != 1 || !got[0].Outcome.Success() || got[0].Inflight != 1 || got[0].Class != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAPanicIsRecorded(t *testing.T) {
	rec := newRecorder(t)
	s := newSite(t, Config{PerClass: Auto, Recorder: rec}, func(http.ResponseWriter, *http.Request) { panic("oops") })
	for range 2 {
		func() {
			defer func() { _ = recover() }()
			s.get(200, "/a")
		}()
	}
	got, _ := recorded(t, rec)
	if len(got) != 2 || got[1].Outcome != recording.Ended(weir.Ignored) || got[1].Inflight != 1 {
		t.Errorf("%+v", got)
	}
}

// What a record of each request costs, beside none.
func BenchmarkRecorder(b *testing.B) {
	for _, name := range []string{"none", "recorder"} {
		b.Run(name, func(b *testing.B) {
			cfg := Config{PerClass: Auto, Class: func(*http.Request) string { return "all" }}
			if name == "recorder" {
				cfg.Recorder = newRecorder(b)
			}
			h := middleware(b, cfg).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				w, r := &blank{http.Header{}}, testrig.Request("GET", "/")
				for pb.Next() {
					h.ServeHTTP(w, r)
				}
			})
		})
	}
}
