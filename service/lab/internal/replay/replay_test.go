//go:build !race

package replay

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// service returns a layer of 10 workers that take 100 ms.
func service() sim.Layer {
	return sim.Layer{Name: "service", Workers: 10, ServiceTime: dist.ServiceTime{Mean: 100 * time.Millisecond, Distribution: "lognormal", CV: 0.5}}
}

// upAndDown is a load up to 120 requests a second.
const upAndDown = "10..120@40s,60@20s"

// play returns what a load generator records of a simulated service, and the result.
func play(t *testing.T, l sim.Layer, c sim.Client) (*recorded.File, sim.Result) {
	t.Helper()
	c.Name = "users"
	f := &recorded.File{Name: t.Name()}
	sc := sim.Scenario{Name: "service", Duration: 100 * time.Second, Seed: 9, Layers: []sim.Layer{l}, Clients: []sim.Client{c}}
	r, err := sim.Run(t.Context(), sc, func(r trace.Record) {
		record := recorded.FromTrace(r)
		if c.Timeout > 0 {
			record.Deadline = record.Intended + c.Timeout
		}
		f.Records = append(f.Records, record)
	}, nil)
	testrig.Must(t, err)
	f.Sort()
	return f, r
}

// replayed replays a recording, with the figures as text.
func replayed(t *testing.T, f *recorded.File, o Options) (*Report, string) {
	t.Helper()
	o.Seeds, o.Seed = 6, 1
	r, err := Run(t.Context(), f, o)
	testrig.Must(t, err)
	var text strings.Builder
	testrig.Must(t, r.Table(&text))
	return r, text.String()
}

// within reports whether a figure is near another.
func within(got, want, most float64) bool { return got >= want*(1-most) && got <= want*(1+most) }

// The replay finds the service out, shows what happened, and knows what happens with a limit.
func TestWhatIf(t *testing.T) {
	sharing, queue, contended := service(), service(), service()
	contended.Workers, contended.ServiceTime.Mean, contended.Contention = 40, 40*time.Millisecond, sim.Contention{Sigma: 0.02, Kappa: 0.0008}
	sharing.Sharing = true
	bound := 15
	queue.Queue = &bound
	for _, tt := range []struct {
		name    string
		layer   sim.Layer
		client  sim.Client
		station string
	}{
		{"workers", service(), sim.Client{}, "10 workers"},
		{"contention and crosstalk", contended, sim.Client{Rate: "20..380@40s,200@10s"}, ""},
		{"processors", sharing, sim.Client{}, "10 processors, which requests share"},
		{"a queue of its own", queue, sim.Client{}, "10 workers, queue 15"},
		{"callers that leave", service(), sim.Client{Timeout: 400 * time.Millisecond}, "10 workers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.client.Rate = cmp.Or(tt.client.Rate, upAndDown)
			f, _ := play(t, tt.layer, tt.client)
			twelve := Limit{Name: "fixed", N: 12}
			r, text := replayed(t, f, Options{Policies: []Policy{{Limit: twelve}}})
			if contended := strings.Contains(r.Station.String(), "contention"); !r.Holds || contended != (tt.station == "") || !contended && r.Station.String() != tt.station || r.Before.Name != "none" {
				t.Fatalf("\n%s", text)
			}
			if got, want := r.Replayed.Median, r.Happened; !within(got.Served, want.Served, 0.02) || !within(got.P95, want.P95, 0.1) || !within(got.Wasted+10, want.Wasted+10, 0.25) {
				t.Errorf("what was:\n%s", text)
			}
			tt.layer.Guard = twelve.guard()
			_, really := play(t, tt.layer, tt.client)
			got := r.Outcomes[0].Median
			if want := float64(really.Totals.Good); !within(got.Served, want, 0.05) || !within(got.P95, really.Latency.P95.Seconds(), 0.15) {
				t.Errorf("really: %v served, P95 %v\n%s", want, really.Latency.P95, text)
			}
		})
	}
}

// behind returns what a limit records before ten workers, of which requests of two classes take 100 and 20 ms.
func behind(t *testing.T, cfg inflight.Config) *recorded.File {
	t.Helper()
	var b bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		rec, err := recording.New(recording.Config{})
		testrig.Must(t, err)
		cfg.Recorder = rec
		lim, err := inflight.New(cfg)
		testrig.Must(t, err)
		workers := make(chan struct{}, 10)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 4000 {
			class, mean := "slow", 100e6
			if i%2 == 0 {
				class, mean = "quick", 20e6
			}
			takes := time.Duration(mean * (0.5 + rng.Float64()))
			time.Sleep(time.Duration(rng.ExpFloat64() / (20 + 180*float64(i)/4000) * 1e9))
			go func() {
				permit, err := lim.Acquire(weir.WithClass(t.Context(), weir.Class{Route: class}), 1)
				if err != nil {
					return
				}
				workers <- struct{}{}
				time.Sleep(takes)
				<-workers
				permit.Release(weir.Success)
			}()
		}
		time.Sleep(time.Minute)
		w := recording.NewWriter(&b, rec.Epoch())
		testrig.Must(t, rec.Drain(w))
	})
	f, err := recorded.Read(&b, "limited")
	testrig.Must(t, err)
	return f
}

// A recording of a limit tells which it was.
func TestTheLimitIsInferred(t *testing.T) {
	for _, tt := range []struct {
		want string
		cfg  inflight.Config
	}{
		{"14", inflight.Config{Algorithm: limit.Fixed(14)}},
		{"12, queue 5", inflight.Config{Algorithm: limit.Fixed(12), Queue: 5}},
		{"12, queue 0", inflight.Config{Algorithm: limit.Fixed(12), Queue: -1}},
		{"12, for 100ms", inflight.Config{Algorithm: limit.Fixed(12), MaxWait: 100 * time.Millisecond, Discipline: inflight.FIFO}},
		{"auto", inflight.Config{}},
		{"none", inflight.Config{Algorithm: limit.Fixed(100_000)}},
	} {
		f := behind(t, tt.cfg)
		if got, reason := before(f.Records); got.String() != tt.want || reason != "" {
			t.Errorf("%v, %s: want %s", got, reason, tt.want)
		}
	}
	two := behind(t, inflight.Config{Algorithm: limit.Fixed(12)}).Records
	for i := range two {
		if two[i].Class == 1 {
			two[i].Inflight /= 2
		}
	}
	if got, reason := before(two); reason != "Each class has a limit of its own: a replay has one for all." {
		t.Errorf("%v, %s", got, reason)
	}
	changed := behind(t, inflight.Config{Algorithm: limit.Fixed(12)}).Records
	for i := range changed {
		if i > len(changed)*2/3 {
			changed[i].Inflight = min(changed[i].Inflight, 7)
		}
	}
	if got, reason := before(changed); reason != "The limit was changed within the recording, from 12 to 7: a replay has one for all of it." {
		t.Errorf("%v, %s", got, reason)
	}
}

// With the limit that was in force, a replay shows what happened; with a higher one, what would have.
func TestReplayOfALimit(t *testing.T) {
	r, text := replayed(t, behind(t, inflight.Config{Algorithm: limit.Fixed(14), Queue: 30}), Options{Policies: []Policy{{Limit: Limit{Name: "none"}}}})
	if !r.Holds || r.Station.Workers != 10 || !within(r.Replayed.Median.Served, r.Happened.Served, 0.02) || !within(r.Replayed.Median.P95, r.Happened.P95, 0.15) {
		t.Errorf("\n%s", text)
	}
	if got := r.Outcomes; len(got) != 1 || got[0].Median.Rejected != 0 || got[0].Median.Served != 4000 || got[0].Median.P99 < r.Happened.P99 {
		t.Errorf("\n%s", text)
	}
}

// A recording of Auto is replayed. What would have been without it agrees with a run without it.
func TestReplayOfAuto(t *testing.T) {
	none := Policy{Limit: Limit{Name: "none"}}
	r, text := replayed(t, behind(t, inflight.Config{}), Options{Policies: []Policy{none}})
	if !r.Holds || r.Station.String() != "10 workers" || !within(r.Replayed.Median.Served, r.Happened.Served, 0.02) || !within(r.Replayed.Median.P95, r.Happened.P95, 0.1) {
		t.Fatalf("\n%s", text)
	}
	really := newModel(behind(t, inflight.Config{Algorithm: limit.Fixed(100_000)}), Options{}).happened.figures()
	if got := r.Outcomes[0].Median; got.Served != really.Served || !within(got.P95, really.P95, 0.15) {
		t.Errorf("really: %+v\n%s", really, text)
	}
}

// Without what it needs, a replay says what that is.
func TestRefusals(t *testing.T) {
	whole := func(l sim.Layer, rate string) *recorded.File {
		f, _ := play(t, l, sim.Client{Rate: rate})
		return f
	}
	small := service()
	small.Workers = 2
	pair := whole(small, "2..24@40s,10@20s")
	for i := range pair.Records {
		pair.Records[i].Origin = 1
	}
	second := whole(service(), "10..50@40s,60@20s")
	for i := range second.Records {
		second.Records[i].Origin = 2
	}
	pair.Records = append(pair.Records, second.Records...)
	pair.Sort()
	callers := whole(service(), upAndDown)
	for i := range callers.Records {
		if i%10 == 0 {
			callers.Records[i].Outcome, callers.Records[i].End = recording.Rejected(weir.Overdue), callers.Records[i].Start
		}
	}
	for _, tt := range []struct {
		file *recorded.File
		o    Options
		want string
	}{
		{whole(service(), "10@3s,0"), Options{}, "Too few observations: the service worked on "},
		{whole(service(), "10..40@60s"), Options{}, "The load never came near the knee: "},
		{pair, Options{}, "2 origins did the work"},
		{callers, Options{}, "the callers have recorded that"},
		{whole(service(), upAndDown), Options{Workers: 30}, "30 workers do not explain the response times"},
		{whole(service(), upAndDown), Options{Workers: 1000}, "1000 workers do not explain the response times"},
	} {
		r, text := replayed(t, tt.file, tt.o)
		if r.Holds != (tt.file == pair) || !strings.Contains(text, tt.want) || r.Holds != (len(r.Outcomes) > 0) {
			t.Errorf("want %q:\n%s", tt.want, text)
		}
	}
}

// A request that no origin got does not make it two.
func TestRequestsWithoutAnOrigin(t *testing.T) {
	f, _ := play(t, service(), sim.Client{Rate: upAndDown})
	for i := range f.Records {
		f.Records[i].Origin = uint8(min(i%20, 1))
	}
	if r, text := replayed(t, f, Options{}); !r.Holds || strings.Contains(text, "origins did the work") {
		t.Errorf("\n%s", text)
	}
}

// If the work becomes slower for a while, or there are fewer workers, a replay shows it, and what a limit makes of it.
func TestTheCapacityChanges(t *testing.T) {
	slow, lost := service(), service()
	slow.Changes = []sim.Change{{At: 30 * time.Second, Slowdown: new(2.0)}, {At: 45 * time.Second, Slowdown: new(1.0)}}
	lost.Changes = []sim.Change{{At: 30 * time.Second, Workers: new(4)}, {At: 45 * time.Second, Workers: new(10)}}
	for _, l := range []sim.Layer{slow, lost} {
		c := sim.Client{Rate: "10..90@30s,90@30s"}
		f, _ := play(t, l, c)
		r, text := replayed(t, f, Options{Policies: []Policy{{Limit: Limit{Name: "fixed", N: 12}}}})
		t.Logf("\n%s", text)
		if !r.Holds || !within(r.Replayed.Median.P95, r.Happened.P95, 0.1) {
			t.Errorf("\n%s", text)
			continue
		}
		l.Guard = Limit{Name: "fixed", N: 12}.guard()
		_, really := play(t, l, c)
		got := r.Outcomes[0].Median
		if want := float64(really.Totals.Good); !within(got.Served, want, 0.05) || !within(got.P95, really.Latency.P95.Seconds(), 0.15) {
			t.Errorf("really: %v served, P95 %v\n%s", want, really.Latency.P95, text)
		}
	}
}
