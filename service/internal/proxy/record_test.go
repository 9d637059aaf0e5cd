package proxy_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/blackbox"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// recorded returns the records of a proxy, in the order of their arrival, and the names of their classes.
func recorded(t *testing.T, rec *recording.Recorder) (all []recording.Record, names map[uint16]string) {
	t.Helper()
	var b bytes.Buffer
	if err := rec.Drain(recording.NewWriter(&b, rec.Epoch())); err != nil {
		t.Fatal(err)
	}
	in, err := recording.NewReader(&b)
	for err == nil {
		var one recording.Record
		if one, err = in.Read(); err == nil {
			all = append(all, one)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	slices.SortStableFunc(all, func(a, b recording.Record) int { return int(a.Intended - b.Intended) })
	return all, in.Names()
}

func newBox(t *testing.T) *blackbox.Box {
	box, err := blackbox.New(blackbox.Config{Records: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// wantRecords compares records, whose times round down.
func wantRecords(t *testing.T, got, want []recording.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records: want %d: %+v", len(got), len(want), got)
	}
	near := func(got, want time.Duration) bool { return got <= want && got > want-200*time.Nanosecond }
	for i, w := range want {
		g := got[i]
		if !near(g.Intended, w.Intended) || !near(g.Wait, w.Wait) || !near(g.Start, w.Start) || !near(g.End, w.End) || !near(g.Deadline, w.Deadline) {
			t.Errorf("%d: times %+v: want %+v", i, g, w)
		}
		if g.Inflight != w.Inflight || g.Outcome != w.Outcome || g.Class != w.Class || g.Tenant != w.Tenant || g.Origin != w.Origin {
			t.Errorf("%d: %+v: want %+v", i, g, w)
		}
	}
}

const ms = time.Millisecond

// Each request has one record, with its wait, its work, and how it ended.
func TestEachRequestHasARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newBox(t)
		time.Sleep(time.Second) // the proxy is younger than the Recorder
		p := newProxy(t, proxy.Config{Transport: answers(200, 100*ms), Queue: 1, Box: box})
		at := func(d time.Duration, ctx context.Context, path string) {
			go func() {
				time.Sleep(d)
				p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "http://proxy.test"+path, nil))
			}()
		}
		dated, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
		defer cancel()
		leaves, leave := context.WithCancel(t.Context())
		at(0, t.Context(), "/a")
		at(10*ms, dated, "/orders/4711")
		at(20*ms, t.Context(), "/a") // the queue is full
		at(110*ms, leaves, "/a")     // leaves while it waits
		time.AfterFunc(150*ms, leave)
		time.Sleep(200 * ms)
		leaves, leave = context.WithCancel(t.Context())
		at(100*ms, leaves, "/long/1")
		time.Sleep(150 * ms)
		leave()
		time.Sleep(150 * ms)
		leaves, leave = context.WithTimeout(t.Context(), time.Minute)
		at(0, leaves, "/long/1")
		time.Sleep(50 * ms)
		leave()
		time.Sleep(time.Hour)

		got, names := recorded(t, box.Recorder())
		wantRecords(t, got, []recording.Record{
			{Intended: 1000 * ms, Start: 1000 * ms, End: 1100 * ms, Inflight: 1, Class: 1, Origin: 1, Outcome: recording.Ended(weir.Success)},
			{Intended: 1010 * ms, Wait: 90 * ms, Start: 1100 * ms, End: 1200 * ms, Deadline: 61_000 * ms, Inflight: 1, Class: 2, Origin: 1, Outcome: recording.Ended(weir.Success)},
			{Intended: 1020 * ms, Start: 1020 * ms, End: 1020 * ms, Inflight: 1, Class: 1, Outcome: recording.Rejected(weir.QueueFull)},
			{Intended: 1110 * ms, Wait: 40 * ms, Start: 1150 * ms, End: 1150 * ms, Inflight: 1, Class: 1, Outcome: recording.Cancelled},
			{Intended: 1300 * ms, Start: 1300 * ms, End: 1400 * ms, Deadline: 1350 * ms, Inflight: 1, Class: 3, Origin: 1, Outcome: recording.Ended(outcome.Gone)},
			{Intended: 1500 * ms, Start: 1500 * ms, End: 1600 * ms, Deadline: 1550 * ms, Inflight: 1, Class: 3, Origin: 1, Outcome: recording.Ended(outcome.Gone)},
		})
		if names[1] != "/a" || names[2] != "/orders/*" || names[3] != "/long/*" {
			t.Errorf("%v", names)
		}
	})
}

// A request that goes to another origin has one record, of the origin that has done the work. The time until then is a wait.
func TestARetriedRequestHasOneRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newBox(t)
		good := answers(200, 100*ms)
		p := newProxy(t, proxy.Config{
			Origins: []string{"http://bad.test", "http://good.test"}, Limit: proxy.FixedLimit(5), Box: box,
			Transport: origin(func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "bad.test" {
					time.Sleep(10 * ms)
					return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
				}
				return good(r)
			}),
		})
		for range 20 {
			ask(t.Context(), p)
		}
		got, _ := recorded(t, box.Recorder())
		moved := 0
		for _, r := range got {
			if r.Origin != 2 || !r.Outcome.Success() || r.Response().Round(ms) != 100*ms || r.Wait.Round(ms) != 0 && r.Wait.Round(ms) != 10*ms {
				t.Errorf("%+v", r)
			}
			if r.Wait > 0 {
				moved++
			}
		}
		if len(got) != 20 || moved == 0 {
			t.Errorf("%d records, %d of requests that were moved", len(got), moved)
		}
	})
}

// A request that goes to another origin because its own answers nothing has no deadline: its client waits on.
func TestARequestOfASilentOriginHasNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newBox(t)
		good := answers(200, 100*ms)
		p := newProxy(t, proxy.Config{
			Origins: []string{"http://silent.test", "http://good.test"}, Limit: proxy.FixedLimit(50), Timeout: 2 * time.Second, Box: box,
			Transport: origin(func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "silent.test" {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return good(r)
			}),
		})
		for range 40 {
			go ask(t.Context(), p)
			time.Sleep(50 * ms)
		}
		time.Sleep(time.Minute)
		got, _ := recorded(t, box.Recorder())
		moved := 0
		for _, r := range got {
			if r.Origin != 2 || !r.Outcome.Success() || r.Deadline != 0 {
				t.Errorf("%+v", r)
			}
			if r.Wait > 500*ms {
				moved++
			}
		}
		if len(got) != 40 || moved == 0 {
			t.Errorf("%d records, %d of requests that were moved", len(got), moved)
		}
	})
}

// The work ends with the header of the answer, and its record is there while the body goes on.
func TestTheRecordEndsWithTheHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newBox(t)
		body, more := io.Pipe()
		p := newProxy(t, proxy.Config{Box: box, Transport: origin(func(*http.Request) (*http.Response, error) {
			time.Sleep(100 * ms)
			a := answer(200)
			a.Body, a.ContentLength = body, -1
			return a, nil
		})})
		go ask(t.Context(), p)
		time.Sleep(10 * time.Second)
		got, _ := recorded(t, box.Recorder())
		wantRecords(t, got, []recording.Record{{End: 100 * ms, Inflight: 1, Class: 1, Origin: 1, Outcome: recording.Ended(weir.Success)}})
		more.Close()
		time.Sleep(time.Hour)
		if got, _ := recorded(t, box.Recorder()); len(got) != 0 {
			t.Errorf("a second record: %+v", got)
		}
	})
}

// What rules deny has a record as a rejection, with the pattern of its route as the class.
func TestADeniedRequestHasARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newBox(t)
		p := newProxy(t, proxy.Config{Transport: answers(200, 0), Box: box, LoadRules: func() (*proxyrule.Rules, error) {
			return proxyrule.Parse("rules.yaml", []byte("classes: [{name: login, routes: [POST /login], limit: 3}]\nrules: [{name: one, rate: 1/m}]\n"))
		}})
		for range 2 {
			p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "http://proxy.test/login", nil))
			time.Sleep(ms)
		}
		got, names := recorded(t, box.Recorder())
		wantRecords(t, got, []recording.Record{
			{Inflight: 1, Class: 1, Origin: 1, Outcome: recording.Ended(weir.Success)},
			{Intended: ms, Start: ms, End: ms, Class: 1, Outcome: recording.Rejected(weir.OverRate)},
		})
		if names[1] != "POST /login" {
			t.Errorf("%v", names)
		}
	})
}
