//go:build !race

package sla

import (
	"context"
	"math/rand/v2"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/pace"
	"github.com/weir-go/weir/service/lab/internal/scenario"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// drive sends an offer to the handler of its row, in the virtual time of a bubble.
func (c Config) drive(t *testing.T, o offer) (a answers) {
	profile, err := pace.Parse(strconv.FormatFloat(o.rate, 'g', -1, 64) + "@" + o.duration.String() + ",0")
	testrig.Must(t, err)
	arrivals := pace.Even(profile)
	if c.Poisson {
		arrivals = pace.Poisson(profile, rand.New(rand.NewPCG(c.Seed, 1)))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	h := o.row.protect(ctx, service(c.upstream(o.slow)))
	epoch := time.Now()
	var mu sync.Mutex // guards a.client
	var requests sync.WaitGroup
	for {
		at, ok := arrivals.Next()
		if !ok {
			requests.Wait()
			return a
		}
		time.Sleep(at - time.Since(epoch))
		requests.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			mu.Lock()
			defer mu.Unlock()
			a.client = append(a.client, trace.Record{Intended: at, Start: at, End: time.Since(epoch), Status: w.Code})
		})
	}
}

// The handlers and the simulation agree: the shipped code that waits, and the
// pure code in virtual time. Their service times are different draws of the same
// distribution. Half of all points are within one per cent in success and
// goodput, and three in latencies; each within three, and ten or, if requests
// come at random, thirty.
func TestHandlersAgreeWithSimulation(t *testing.T) {
	cfg := Full()
	cfg.Point, cfg.Phase = 6*time.Second, 5*time.Second
	for _, tt := range []struct {
		name      string
		rates     []float64
		poisson   bool
		abandoned bool
		latency   float64 // how far one may be apart
	}{
		{"as the source", []float64{100, 400, 425, 450, 500, 600}, false, false, 0.1},
		{"abandoned", []float64{425, 600}, false, true, 0.1},
		{"poisson", []float64{425, 600}, true, false, 0.3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := cfg
			cfg.Rates, cfg.Poisson, cfg.Abandoned = tt.rates, tt.poisson, tt.abandoned
			simulated, err := Simulate(cfg)
			testrig.Must(t, err)
			driven := cfg.driveAll(t)
			a := Compare(driven, simulated)
			if a.Points != cfg.Points() || a.Success.Median > 0.01 || a.Success.Most > 0.03 || a.Goodput.Median > 0.01 || a.Goodput.Most > 0.03 ||
				a.P50.Median > 0.03 || a.P50.Most > tt.latency || a.P95.Median > 0.03 || a.P95.Most > tt.latency {
				t.Errorf("%s", a)
			}
			for i, c := range driven.Slow {
				for phase := range 3 {
					if got, want := c.Goodput(phase), simulated.Slow[i].Goodput(phase); got < want-25 || got > want+25 {
						t.Errorf("%s, phase %d: goodput %.0f: the simulation has %.0f", c.Row, phase, got, want)
					}
				}
			}
			acceptable(t, cfg, driven)
			acceptable(t, cfg, simulated)
		})
	}
}

func (c Config) driveAll(t *testing.T) (r Result) {
	for _, rate := range c.Rates {
		for _, row := range c.Rows {
			synctest.Test(t, func(t *testing.T) {
				o := offer{row: row, rate: rate, duration: c.point(rate), skip: c.Skip}
				r.Points = append(r.Points, c.drive(t, o).point(o))
			})
		}
	}
	for _, o := range c.slowOffers() {
		synctest.Test(t, func(t *testing.T) { r.Slow = append(r.Slow, course(o, c.drive(t, o).client)) })
	}
	r.compare()
	return r
}

// acceptable checks the claims of the experiment on an idle machine: Auto has at
// least 97 % of the goodput of the best tuned row, keeps the agreed P95, refuses at
// once, and withstands the slow-down; the tuned rate keeps the agreement until the
// slow-down.
func acceptable(t *testing.T, c Config, r Result) {
	t.Helper()
	for _, p := range r.Points {
		if p.Row == Auto && (p.OfBest < 0.97 || p.Successes.P95 > c.Agreed.P95 || p.Refusals.P99 > ms) {
			t.Errorf("%+v: want 97 %% of the best, p95 within %v, refusals within 1ms", p, c.Agreed.P95)
		}
		if p.Row == "rate.Wait, 75 ms" && (p.Success < 0.7 || p.Successes.P95 > c.Agreed.P95 || p.Refusals.P99 > ms) {
			t.Errorf("%+v: want 70 %%, p95 within %v, refusals within 1ms", p, c.Agreed.P95)
		}
	}
	half := c.Setting.Capacity() / 2
	for _, c := range r.Slow {
		if slow := c.Goodput(1); c.Row == Auto && slow < 0.9*half || c.Row != Auto && slow > 0.3*half {
			t.Errorf("%s: want Auto at nine tenths of what can be done, and the tuned rate collapsed", c)
		}
	}
}

// The scenario files are the same experiment.
func TestScenarioFiles(t *testing.T) {
	f, err := scenario.Read("../../scenarios/sla.yaml")
	testrig.Must(t, err)
	full, points := Full(), 0
	for i, runs := range f.Figures {
		for k, got := range runs {
			row, rate := full.Rows[k], full.Rates[i]
			points++
			want := full.scenario(offer{row: row, rate: rate, duration: time.Second})
			if got.Name != row.Name || !reflect.DeepEqual(got.Layers, want.Layers) {
				t.Errorf("%s at %g: the guard is %+v: want %+v", got.Name, rate, got.Layers[0].Guard, want.Layers[0].Guard)
			}
			if c := got.Clients[0]; c.Arrivals != "even" || !strings.HasPrefix(want.Clients[0].Rate, c.Rate+"@") {
				t.Errorf("%s at %g: %+v: want %+v", got.Name, rate, c, want.Clients[0])
			}
		}
	}
	if points != full.Points() {
		t.Errorf("%d points: want %d", points, full.Points())
	}
}
