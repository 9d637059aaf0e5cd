package sla

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// Auto is the name of the row without tuned parameters.
const Auto = "Auto"

// shallow is its limiter. The agreement wants refusals within a millisecond, so the queue is
// in order and short: a request beyond it is refused on arrival. Three times the limit
// may wait, so that a wait lasts about three times as long as the work
// (scenarios/sla-depth.yaml), or as many as are served in 100 ms.
var shallow = inflight.Config{Discipline: inflight.FIFO, Depth: 3, MinWait: 100 * time.Millisecond, MaxWait: 3 * time.Second}

// A Row is a way to limit the requests of the service.
type Row struct {
	Name   string
	colour int  // in pictures
	slowed bool // also measured while the upstream is slow
	// protect puts the limit in front of a handler. It ends with ctx.
	protect func(ctx context.Context, next http.Handler) http.Handler
	guard   func() *sim.Guard // the same in virtual time
}

// Rows returns the rows of the source, and Auto.
func (s Setting) Rows() []Row {
	tuned := sim.Rate{PerSecond: s.Rate, Burst: s.Burst}
	limited, mute, atOnce := tuned, tuned, tuned
	limited.MaxWait, mute.MaxWait, mute.Mute, atOnce.MaxWait = s.Wait, s.Wait, true, 1
	paced := func(r sim.Rate) func() *sim.Guard { return func() *sim.Guard { return &sim.Guard{Rate: &r} } }
	wait := fmt.Sprintf("%g ms", s.Wait.Seconds()*1000)
	return []Row{
		{"no limit", 0, false, func(_ context.Context, next http.Handler) http.Handler { return next }, func() *sim.Guard { return nil }},
		{"ticker", 4, false, s.ticking(MaxTime), paced(tuned)},
		{"ticker + " + wait, 3, false, s.ticking(s.Wait), paced(mute)},
		{"tollbooth", 5, false, s.perAddress, paced(atOnce)},
		{"rate.Wait, " + wait, 1, true, s.waiting, paced(limited)},
		{Auto, 2, true, auto, autoGuard},
	}
}

// ticking lets each request wait for a tick. A request that gets none within patience is
// refused.
func (s Setting) ticking(patience time.Duration) func(context.Context, http.Handler) http.Handler {
	return func(ctx context.Context, next http.Handler) http.Handler {
		ticks := s.ticks(ctx)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-ticks:
				next.ServeHTTP(w, r)
			case <-time.After(patience):
				w.WriteHeader(http.StatusTooManyRequests)
			case <-r.Context().Done():
			}
		})
	}
}

// ticks returns a channel of ticks that keeps up to Burst of them. If the machine is
// late, ticks are lost, as documented by time.Ticker.
func (s Setting) ticks(ctx context.Context) <-chan time.Time {
	c := make(chan time.Time, s.Burst)
	for range s.Burst {
		c <- time.Time{}
	}
	go func() {
		ticker := time.NewTicker(time.Duration(float64(time.Second) / s.Rate))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case tick := <-ticker.C:
				select {
				case c <- tick:
				default: // Burst ticks are kept
				}
			}
		}
	}()
	return c
}

// perAddress refuses a request at once if its client has no token, as tollbooth in the
// source: there is a token bucket for each address, and requests do not wait.
func (s Setting) perAddress(_ context.Context, next http.Handler) http.Handler {
	lim, err := keyed.New[string](gcra.PerSecond(s.Rate, s.Burst), keyed.Config{})
	if err != nil {
		panic("sla: " + err.Error()) // the zero Config is valid
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, _, _ := net.SplitHostPort(r.RemoteAddr)
		if !lim.Allow(address) {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// waiting refuses a request at once if it would get no token within Wait.
func (s Setting) waiting(_ context.Context, next http.Handler) http.Handler {
	lim := rate.NewLimiter(rate.Limit(s.Rate), s.Burst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.Wait)
		defer cancel()
		if err := lim.Wait(ctx); err != nil {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// auto limits the concurrency of each route.
func auto(_ context.Context, next http.Handler) http.Handler {
	m, err := httplimit.New(httplimit.Config{PerClass: func(string) weir.Limiter {
		l, err := inflight.New(shallow)
		if err != nil {
			panic("sla: " + err.Error()) // it is valid
		}
		return l
	}})
	if err != nil {
		panic("sla: " + err.Error()) // so is this
	}
	return m.Handler(next)
}

// autoGuard is the limiter of auto in virtual time.
func autoGuard() *sim.Guard {
	return &sim.Guard{
		Limit: sim.Limit{Name: "auto"}, Queue: inflight.DefaultQueue, Depth: shallow.Depth, Brief: shallow.MinWait,
		MaxWait: shallow.MaxWait, Discipline: shallow.Discipline,
	}
}

// service is the handler to protect.
func service(u *Upstream) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch err := u.Call(r.Context()); err {
		case nil:
			_, _ = w.Write([]byte("Hello!\n"))
		case ErrTimeout:
			w.WriteHeader(http.StatusGatewayTimeout)
		} // else the client has left
	})
}
