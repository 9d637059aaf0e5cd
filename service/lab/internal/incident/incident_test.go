//go:build !race

package incident

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/lab/internal/page"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

// The cause of nearly all incidents is found, and when each began. In a quiet recording, there is none.
func TestCauses(t *testing.T) {
	const seeds = 2
	type tally struct{ right, sure, near int }
	sums, others := map[string]*tally{}, 0
	for seed := range uint64(seeds) {
		for _, tr := range trainings(seed) {
			f := tr.rec(t)
			got := Find(f)
			for _, o := range got.Others {
				others++
				t.Logf("seed %d, %s: another, %s at %v", seed, tr.name, o.Cause, *o.Began)
			}
			s := sums[tr.name]
			if s == nil {
				s = &tally{}
				sums[tr.name] = s
			}
			if got.Cause != tr.cause && !slices.Contains(got.Also, tr.cause) {
				t.Logf("seed %d, %s: %s %v", seed, tr.name, got.Cause, got.Also)
				continue
			}
			s.right++
			for _, e := range got.Evidence {
				unsure := slices.Contains(got.Also, Slow) || slices.Contains(got.Also, LostCapacity)
				if unsure && strings.Contains(e.What, "work of a request") || e.Chance > 0.01 && e.Unit == Share && e.After > e.Before+0.5 {
					t.Errorf("seed %d, %s: %+v", seed, tr.name, e)
				}
			}
			if got.Cause == tr.cause && len(got.Also) == 0 {
				s.sure++
			}
			if tr.cause == None {
				continue
			}
			if late := tr.lateness(got); late.Abs() <= 5*time.Second {
				s.near++
			} else {
				t.Logf("seed %d, %s: began %v late", seed, tr.name, late)
			}
		}
	}
	right, near, incidents := 0, 0, 0
	for name, s := range sums {
		t.Logf("%-22s %d of %d right, %d without another cause, %d within 5 s", name, s.right, seeds, s.sure, s.near)
		if strings.HasPrefix(name, "quiet") {
			if s.right < seeds {
				t.Errorf("%s: an incident is seen", name)
			}
			continue
		}
		right, near, incidents = right+s.right, near+s.near, incidents+seeds
	}
	if 20*right < 19*incidents || 20*near < 19*incidents || 20*others > incidents {
		t.Errorf("%d of %d causes are right, %d beginnings within 5 s; %d others", right, incidents, near, others)
	}
}

// incidentOf returns a recording of ten workers that take 100 ms with a load of 70 %, and what happened in it.
func incidentOf(t *testing.T, change func(*world)) (*recorded.File, *Incident, world) {
	t.Helper()
	w := plainWorld(5, 10, 100*time.Millisecond, "lognormal", 0.5, 0.7, 55*time.Second)
	w.timeout, w.queue = time.Second, 500
	change(&w)
	f := w.rec(t)
	i := Find(f)
	testrig.Must(t, i.Recommend(t.Context(), f, 1))
	return f, i, w
}

// servedSince counts the requests that came at an instant or later and were served.
func servedSince(rs []recording.Record, at time.Duration) (n float64) {
	for i := range rs {
		if served(&rs[i]) && recorded.Came(&rs[i]) >= at {
			n++
		}
	}
	return n
}

// The same incident with the setting that was recommended: nearly all that could be served is served.
func TestTheSettingSaves(t *testing.T) {
	const at = 30 * time.Second
	for name, tt := range map[string]struct {
		cause  Cause
		change func(*world)
	}{
		"slow": {Slow, func(w *world) { w.events = []event{slower(at, 2.5)} }},
		"retry storm": {RetryStorm, func(w *world) {
			w.length, w.tries, w.backoff, w.events = 70*time.Second, 4, 100*time.Millisecond, []event{slower(at, 3), slower(at+6*time.Second, 1)}
		}},
		"heavy route": {HeavyRoute, func(w *world) { // beside a load of which half of the workers do not show
			w.routes[0].rate, w.routes[1].rate = 0.5*w.routes[0].rate, 0.5*w.routes[1].rate
			w.routes = append(w.routes, route{rate: 14, from: at, mean: time.Second, law: "lognormal", cv: 0.5})
			w.timeout = 4 * time.Second
		}},
	} {
		f, i, w := incidentOf(t, tt.change)
		s := i.Setting
		if i.Cause != tt.cause || s == nil || s.Class != i.Class || !s.Replayed || *s.Served < 0.75**s.Could {
			t.Errorf("%s, %d workers: %s, %+v, %q", name, i.workers, i.Cause, s, i.Doubts)
			if s == nil || !s.Replayed {
				continue
			}
		}
		w.limited = true
		if s.Limit != "auto" {
			n := 0
			testrig.Must(t, json.Unmarshal([]byte(s.Limit), &n))
			w.limit.Algorithm = limit.Fixed(n)
		}
		if s.Class != "" {
			w.only = 3
		}
		if s.MaxWait != nil {
			w.limit.MaxWait = time.Duration(*s.MaxWait * 1e9)
		}
		before, after := servedSince(f.Records, at), servedSince(w.rec(t).Records, at)
		t.Logf("%s, %d workers: %s; really %.0f instead of %.0f", name, i.workers, s, after, before)
		if after < 0.9**s.Could {
			t.Errorf("%s: %s: really %.0f", name, s, after)
		}
	}
}

func TestText(t *testing.T) {
	_, i, _ := incidentOf(t, func(w *world) {
		w.limited, w.limit = true, inflight.Config{Algorithm: limit.Fixed(40)}
		w.events = []event{fewer(30*time.Second, 3)}
	})
	var b strings.Builder
	testrig.Must(t, i.Table(&b))
	for _, want := range []string{
		"incident      lost capacity: fewer requests are worked on at a time, and each takes as long as before\n",
		"\n  began       ", " into the recording (", ", at 2023-11-14 22:13:", "; it went on to the end\n",
		"\n  setting     limit ", "% of what could be served\n", "before", "during", "by chance",
		"\nrequests at work at a time ", "\nrequests that were served ", "< 1e-6",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, &b)
		}
	}
	data, err := json.Marshal(i)
	testrig.Must(t, err)
	for _, want := range []string{`{"cause":"lost_capacity","also":[],`, `"began":`, `"low":`, `"high":`, `"evidence":[{"what":"`, `"setting":{"limit":`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%q is not in %s", want, data)
		}
	}
}

// A limit that was in force may be the best one.
func TestTheLimitInForceIsTheBest(t *testing.T) {
	_, i, _ := incidentOf(t, func(w *world) {
		w.limited, w.events = true, []event{slower(30*time.Second, 3)}
	})
	s := i.Setting
	if i.Cause != Slow || s == nil || !s.InForce || s.Limit != "auto" || *s.Happened < 0.9**s.Could || !strings.Contains(s.String(), "limit auto, which was in force, and no other serves more: ") {
		t.Errorf("%s, %+v, %q", i.Cause, s, i.Doubts)
	}
}

// A recording may have several incidents.
func TestTwoIncidents(t *testing.T) {
	_, worst, _ := incidentOf(t, func(w *world) {
		w.length = 100 * time.Second
		w.events = []event{busier(20*time.Second, 2.5), busier(26*time.Second, 1), slower(65*time.Second, 3)}
	})
	var b strings.Builder
	testrig.Must(t, worst.Table(&b))
	var p page.Page
	worst.Tell(&p)
	if s := worst.Setting; worst.Cause != Slow || len(worst.Others) != 1 || s == nil || !s.Replayed || *s.Served > *s.Could || *s.Could > 3600 {
		t.Fatalf("%s", &b)
	}
	other, lost := worst.Others[0], worst.Evidence[len(worst.Evidence)-1]
	if other.Cause != Demand || *other.Began < 18 || *other.Began > 23 || other.Ended == nil || *other.Ended > 60 || other.Setting != nil || *worst.Began < 64 || lost.What != "requests that were not served" || lost.Before > 0.01 {
		t.Errorf("%s", &b)
	}
	for _, want := range []string{"incident      slow dependency", "\nanother       demand: ", "\n  began       "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, &b)
		}
	}
	if len(p.Parts) != 2 || !strings.HasPrefix(p.Answer[3], "Another incident: demand: ") || p.Parts[1].Title != "Another incident, from "+table.Seconds(*other.Began)+" on" {
		t.Errorf("%+v", p)
	}
}

// Few requests tell nothing.
func TestTooFewToTell(t *testing.T) {
	f := &recorded.File{Records: make([]recording.Record, 10)}
	if i := Find(f); i.Cause != None || len(i.Doubts) != 1 {
		t.Errorf("%+v", i)
	}
}

// Whatever a recording has, there is a finding.
func FuzzFind(f *testing.F) {
	f.Add(int64(1e7), int64(2e7), uint8(1), int64(1e7), uint8(3))
	f.Add(int64(1e8), int64(-2e7), uint8(5), int64(1e9), uint8(1))
	f.Add(int64(1<<52), int64(1<<62), uint8(17), int64(1<<62), uint8(0))
	f.Add(int64(0), int64(0), uint8(7), int64(1), uint8(2))
	f.Fuzz(func(t *testing.T, apart, takes int64, o uint8, lag int64, origins uint8) {
		var all []recording.Record
		for i := range int64(400) {
			at := time.Duration(i * apart)
			r := recording.Record{Intended: at, Start: at, End: at + time.Duration(takes), Class: uint16(i % 2), Outcome: 1}
			if i > 200 {
				r.Start += time.Duration(lag * (i % 3))
				r.End = r.Start + time.Duration(takes*(i%7))
				r.Outcome = recording.Outcome(o)
			}
			if origins > 0 {
				r.Origin = uint8(i) % origins
			}
			all = append(all, r)
		}
		file := &recorded.File{Records: all}
		file.Sort()
		i := Find(file)
		if _, err := json.Marshal(i); err != nil {
			t.Error(err)
		}
		if i.Began != nil && (*i.Low > *i.Began || *i.Began > *i.High || i.At == nil) {
			t.Errorf("%+v", i)
		}
	})
}

// Requests that are not served from the beginning on are no incident that begins, but are told.
func TestSteadyLoss(t *testing.T) {
	f := &recorded.File{Epoch: time.Unix(1, 0)}
	for i := range 4000 {
		at := time.Duration(i) * 10 * time.Millisecond
		r := recording.Record{Intended: at, Start: at, End: at + 20*time.Millisecond, Outcome: recording.Ended(weir.Success)}
		if i%3 == 0 {
			r.Outcome = recording.Ended(weir.Dropped)
		}
		f.Records = append(f.Records, r)
	}
	got := Find(f)
	if got.Cause != None || len(got.Doubts) != 1 || !strings.Contains(got.Doubts[0], "33 % of all") {
		t.Errorf("%+v: want no incident, and that a third was not served", got)
	}
}
