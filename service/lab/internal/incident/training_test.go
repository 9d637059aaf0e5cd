//go:build !race

package incident

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

// A world is a proxy with a limit for each origin, the origins, and the callers. It records what the proxy sees or, if
// that is set, what the callers see.
type world struct {
	seed    uint64
	length  time.Duration
	origins int
	workers int             // of each origin
	queue   int             // of each origin; 0: 10,000
	limit   inflight.Config // of each origin; without an algorithm and queue, there is none
	limited bool
	only    int  // the class that is limited; 0 is all
	callers bool // record what the callers see
	timeout time.Duration
	tries   int // of a call
	backoff time.Duration
	pause   string // constant or full jitter
	routes  []route
	events  []event
}

// A route is a class of requests.
type route struct {
	rate   float64 // a second
	ramp   float64 // what the rate grows by within the recording, as a factor; 0 is not at all
	from   time.Duration
	until  time.Duration
	mean   time.Duration
	law    string
	cv     float64
	factor float64 // of the rate, by events
}

// An event changes the world.
type event struct {
	at time.Duration
	do func(*state)
}

// A state is a world in time.
type state struct {
	*world
	slow  []float64 // by origin
	fails []float64
	pool  []*inflight.Limiter
	out   int // number of the origin that gets no requests; 0 is none
}

func (w world) rec(t *testing.T) *recorded.File {
	t.Helper()
	f := &recorded.File{Name: "training", Epoch: time.Unix(1_700_000_000, 0), Classes: map[uint16]string{1: "GET /a", 2: "GET /b", 3: "GET /heavy"}}
	play := func(t *testing.T) {
		w.routes = append([]route(nil), w.routes...)
		for i := range w.routes {
			w.routes[i].factor = 1
		}
		s := &state{world: &w}
		begun := time.Now()
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(w.seed, 3))
		var limits []*inflight.Limiter
		for range max(w.origins, 1) {
			pool, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(w.workers), Queue: max(w.queue, 0) + 10_000*btoi(w.queue == 0), MaxWait: time.Hour, Discipline: inflight.FIFO})
			testrig.Must(t, err)
			s.pool, s.slow, s.fails = append(s.pool, pool), append(s.slow, 1), append(s.fails, 0)
			if w.limited {
				lim, err := inflight.New(w.limit)
				testrig.Must(t, err)
				limits = append(limits, lim)
			}
		}
		busy := make([]int, len(s.pool))
		attempt := func(class int, intended time.Duration) bool {
			mu.Lock()
			o := rng.IntN(len(s.pool))
			if p := rng.IntN(len(s.pool)); busy[p] < busy[o] {
				o = p
			}
			if o == s.out-1 {
				o = (o + 1) % len(s.pool)
			}
			r := &w.routes[class]
			takes := (dist.ServiceTime{Mean: time.Duration(float64(r.mean) * s.slow[o]), Distribution: r.law, CV: r.cv}).Draw(rng)
			fails := rng.Float64() < s.fails[o]
			busy[o]++
			mu.Unlock()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if w.timeout > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), w.timeout)
				defer cancel()
			}
			rec := recording.Record{Intended: intended, Class: uint16(class + 1)}
			if len(s.pool) > 1 {
				rec.Origin = uint8(o + 1)
			}
			write := func() {
				rec.End = time.Since(begun)
				if !rec.Outcome.Worked() {
					rec.Start = rec.End
				}
				mu.Lock()
				f.Records = append(f.Records, rec)
				mu.Unlock()
			}
			free := func() { mu.Lock(); busy[o]--; mu.Unlock() }
			release := func(weir.Outcome) {}
			if w.limited && (w.only == 0 || w.only == class+1) {
				p, err := limits[o].Acquire(ctx, 1)
				rec.Wait, rec.Inflight = time.Since(begun)-intended, limits[o].Stats().Inflight
				if err != nil {
					free()
					rec.Outcome = recording.Cancelled
					if why, ok := err.(*weir.Rejection); ok {
						rec.Outcome = recording.Rejected(why.Reason)
					}
					write()
					return false
				}
				release = func(o weir.Outcome) { p.Release(o) }
			}
			rec.Start = time.Since(begun)
			done := make(chan bool, 1)
			go func() { // the work goes on when the caller has left
				ok := true
				if p, err := s.pool[o].Acquire(context.Background(), 1); err != nil {
					ok = false
				} else {
					time.Sleep(takes)
					p.Release(weir.Success)
				}
				free()
				out := weir.Success
				switch {
				case !ok:
					out = weir.Dropped
				case ctx.Err() != nil:
					out = outcome.Gone
				case fails:
					out, ok = weir.Ignored, false
				}
				release(out)
				if !w.callers {
					rec.Outcome = recording.Ended(out)
					write()
				}
				done <- ok
			}()
			select {
			case ok := <-done:
				if w.callers {
					rec.Outcome = recording.Ended(weir.Success)
					if !ok {
						rec.Outcome = recording.Ended(weir.Dropped)
					}
					write()
				}
				return ok
			case <-ctx.Done():
				if w.callers {
					rec.Outcome = recording.Ended(outcome.TimedOut)
					write()
				}
				return false
			}
		}
		call := func(class int) {
			for n := range max(w.tries, 1) {
				if attempt(class, time.Since(begun)) {
					return
				}
				if n+1 < w.tries {
					wait := w.backoff << n
					if w.pause != "constant" {
						mu.Lock()
						wait = time.Duration(rng.Float64() * float64(wait))
						mu.Unlock()
					}
					time.Sleep(wait)
				}
			}
		}
		var all sync.WaitGroup
		for _, e := range w.events {
			all.Go(func() { time.Sleep(e.at); mu.Lock(); e.do(s); mu.Unlock() })
		}
		for class := range w.routes {
			own := rand.New(rand.NewPCG(w.seed, uint64(class)+10))
			all.Go(func() {
				time.Sleep(w.routes[class].from)
				for {
					mu.Lock()
					r := w.routes[class]
					mu.Unlock()
					rate := r.rate * r.factor
					if r.ramp > 0 {
						rate *= 1 + (r.ramp-1)*time.Since(begun).Seconds()/w.length.Seconds()
					}
					time.Sleep(time.Duration(own.ExpFloat64() / rate * 1e9))
					if now := time.Since(begun); now > w.length || r.until > 0 && now > r.until {
						return
					}
					go call(class)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
	}
	synctest.Test(t, play)
	f.Sort()
	// What had not ended when the recording ends has no record.
	var whole []recording.Record
	for _, r := range f.Records {
		if r.End <= w.length {
			whole = append(whole, r)
		}
	}
	f.Records = whole
	return f
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Events.

func slower(at time.Duration, factor float64, origins ...int) event {
	return event{at, func(s *state) {
		for o := range s.slow {
			if len(origins) == 0 || o == origins[0] {
				s.slow[o] = factor
			}
		}
	}}
}

func failing(at time.Duration, share float64, origin int) event {
	return event{at, func(s *state) { s.fails[origin] = share }}
}

func fewer(at time.Duration, workers int) event {
	return event{at, func(s *state) {
		for _, p := range s.pool {
			p.SetAlgorithm(limit.Fixed(workers))
		}
	}}
}

func busier(at time.Duration, factor float64) event {
	return event{at, func(s *state) {
		for i := range s.routes {
			s.routes[i].factor = factor
		}
	}}
}

// plainWorld has a service at a share of its capacity.
func plainWorld(seed uint64, workers int, mean time.Duration, law string, cv, load float64, length time.Duration) world {
	rate := load * float64(workers) / mean.Seconds()
	return world{seed: seed, length: length, workers: workers, routes: []route{
		{rate: 0.7 * rate, mean: mean, law: law, cv: cv}, {rate: 0.3 * rate, mean: mean, law: law, cv: cv},
	}}
}

// A training incident has the cause that is looked for, and when it began.
type training struct {
	name  string
	cause Cause
	began time.Duration
	world
}

// trainings returns incidents of a seed.
func trainings(seed uint64) (all []training) {
	rng := rand.New(rand.NewPCG(seed, 99))
	pick := func(from, to float64) float64 { return from + (to-from)*rng.Float64() }
	add := func(name string, cause Cause, began time.Duration, w world) {
		all = append(all, training{name, cause, began, w})
	}
	laws := []struct {
		law string
		cv  float64
	}{{"lognormal", 0.5}, {"exponential", 0}, {"constant", 0}, {"normal", 0.2}}
	guards := func(w world) world {
		switch rng.IntN(4) {
		case 0: // no limit
		case 1:
			w.limited = true // auto
		case 2:
			w.limited, w.limit = true, inflight.Config{Algorithm: limit.Fixed(w.workers * 3)}
		case 3:
			w.callers = true
		}
		if rng.IntN(2) == 0 {
			w.timeout = time.Duration(pick(8, 30)) * w.routes[0].mean
		}
		return w
	}
	base := func(load float64) (world, time.Duration) {
		n := []int{4, 7, 10, 20, 60}[rng.IntN(5)]
		mean := time.Duration(pick(40, 150)*max(float64(n)/10, 1)) * time.Millisecond
		l := laws[rng.IntN(len(laws))]
		length := time.Duration(pick(60, 120)) * time.Second
		w := plainWorld(seed+rng.Uint64()%1000, n, mean, l.law, l.cv, load, length)
		return w, time.Duration(float64(length) * pick(0.3, 0.6)).Round(time.Second / 10)
	}
	end := func(w world, at time.Duration) time.Duration {
		return at + time.Duration(float64(w.length-at)*pick(0.5, 1.2))
	}
	{
		w, at := base(pick(0.4, 0.7))
		w.events = []event{slower(at, pick(2, 4)), slower(end(w, at), 1)}
		add("slow", Slow, at, guards(w))
	}
	{
		w, at := base(pick(0.2, 0.3))
		w.events = []event{slower(at, 2)}
		add("slow without overload", Slow, at, guards(w))
	}
	{
		w, at := base(pick(0.6, 0.8))
		w.events = []event{fewer(at, max(w.workers/3, 1)), fewer(end(w, at), w.workers)}
		add("lost workers", LostCapacity, at, guards(w))
	}
	{ // one of two classes, and callers leave
		w, at := base(pick(0.3, 0.5))
		w.routes[1].mean /= 4
		w.timeout = 15 * w.routes[0].mean
		w.events = []event{{at, func(s *state) { s.routes[0].mean = time.Duration(float64(s.routes[0].mean) * 5) }}}
		add("slow class", Slow, at, w)
	}
	{ // soon after more requests come, and callers leave
		w, at := base(pick(0.4, 0.5))
		w.timeout = 15 * w.routes[0].mean
		w.events = []event{busier(at-time.Duration(pick(1, 6)*float64(time.Second)), pick(1.2, 1.5)), fewer(at, max(w.workers/3, 1))}
		add("lost after a rise", LostCapacity, at, w)
	}
	{
		w, at := base(pick(0.6, 0.75))
		w.timeout = 8 * w.routes[0].mean
		w.tries, w.backoff = 4, 100*time.Millisecond
		if rng.IntN(2) == 0 {
			w.pause = "constant"
		}
		w.events = []event{slower(at, 3), slower(at+time.Duration(pick(4, 8))*time.Second, 1)}
		w.queue = []int{50, 200, 1000}[rng.IntN(3)]
		add("retry storm", RetryStorm, at, w)
	}
	{
		w, at := base(pick(0.4, 0.6))
		w.origins = 3
		for i := range w.routes {
			w.routes[i].rate *= 3
		}
		w.events = []event{slower(at, pick(4, 8), 1), slower(end(w, at), 1)}
		g := guards(w)
		g.callers = false
		add("slow origin", BadOrigin, at, g)
	}
	{
		w, at := base(pick(0.4, 0.6))
		w.origins = 2 + rng.IntN(2)
		for i := range w.routes {
			w.routes[i].rate *= float64(w.origins)
		}
		w.events = []event{busier(at-12*time.Second, 1.6), failing(at, pick(0.4, 1), 1)}
		g := guards(w)
		g.callers = false
		add("failing origin", BadOrigin, at, g)
	}
	{
		w, at := base(pick(0.7, 0.8))
		w.origins = 2
		for i := range w.routes {
			w.routes[i].rate *= 2
		}
		w.events = []event{{at, func(s *state) { s.out = 2 }}}
		w.limited = rng.IntN(2) == 0
		add("origin that is gone", LostCapacity, at, w)
	}
	{
		w, at := base(pick(0.4, 0.6))
		h := w.routes[0]
		h.mean = time.Duration(float64(h.mean) * pick(5, 12))
		h.rate = pick(0.6, 1) * float64(w.workers) / h.mean.Seconds()
		h.from = at
		w.routes = append(w.routes, h)
		add("heavy route", HeavyRoute, at, guards(w))
	}
	{
		w, at := base(pick(0.4, 0.6))
		w.events = []event{busier(at, pick(2.6, 4)), busier(end(w, at), 1)}
		add("demand", Demand, at, guards(w))
	}
	{
		w, _ := base(pick(0.3, 0.75))
		add("quiet", None, 0, guards(w))
	}
	{
		w, _ := base(0.25)
		for i := range w.routes {
			w.routes[i].ramp = 2.5
		}
		add("quiet ramp", None, 0, guards(w))
	}
	{
		w, at := base(0.3)
		w.events = []event{busier(at, 2)}
		if w = guards(w); w.limited && w.limit.Algorithm == nil {
			w.limited = false // Auto, which has to find a higher limit, rejects some
		}
		add("quiet step", None, 0, w)
	}
	return all
}

// lateness returns how far a beginning is off.
func (tr *training) lateness(i *Incident) time.Duration {
	if i.Began == nil {
		return math.MaxInt64
	}
	return time.Duration(*i.Began*1e9) - tr.began
}
