package sla

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/service/internal/lab/sim"
)

// Auto is the name of the row without tuned parameters.
const Auto = "Auto"

// A Row is a way to limit the requests of the service.
type Row struct {
	Name  string
	About string

	colour int // in pictures
	// protect puts the limit in front of a handler. Call stop at the end.
	protect func(next http.Handler) (h http.Handler, stop func(), err error)
	guard   func() *sim.Guard // the same in virtual time
}

// Rows returns the rows of the source, and Auto.
func Rows() []Row {
	tuned := sim.Rate{PerSecond: Tuned, Burst: Burst}
	limited, mute := tuned, tuned
	limited.MaxWait, mute.MaxWait, mute.Mute = Patience, Patience, true
	paced := func(r sim.Rate) func() *sim.Guard { return func() *sim.Guard { return &sim.Guard{Rate: &r} } }
	return []Row{
		{"no limit", "admits every request", 0, unlimited, func() *sim.Guard { return nil }},
		{"ticker", "a tick of a channel, 425 a second, for each", 4, ticking(0), paced(tuned)},
		{"ticker + 75 ms", "the same, for 75 ms at most", 3, ticking(Patience), paced(mute)},
		{"rate.Wait, 75 ms", "a token bucket, 425 a second, and a deadline", 1, waiting, paced(limited)},
		{Auto, "httplimit.New(httplimit.Config{})", 2, auto, autoGuard},
	}
}

func unlimited(next http.Handler) (http.Handler, func(), error) { return next, func() {}, nil }

// ticking lets each request wait for a tick. If patience is not zero, a request that
// gets none in that time is refused.
func ticking(patience time.Duration) func(http.Handler) (http.Handler, func(), error) {
	return func(next http.Handler) (http.Handler, func(), error) {
		ticks, stop := ticks()
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var over <-chan time.Time
			if patience > 0 {
				timer := time.NewTimer(patience)
				defer timer.Stop()
				over = timer.C
			}
			select {
			case <-ticks:
				next.ServeHTTP(w, r)
			case <-over:
				w.WriteHeader(http.StatusTooManyRequests)
			case <-r.Context().Done():
			}
		}), stop, nil
	}
}

// ticks returns a channel of ticks that keeps up to Burst of them. If the machine is
// late, ticks are lost, as documented by time.Ticker.
func ticks() (_ <-chan struct{}, stop func()) {
	c, quit := make(chan struct{}, Burst), make(chan struct{})
	for range Burst {
		c <- struct{}{}
	}
	go func() {
		ticker := time.NewTicker(time.Second / Tuned)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-quit:
				return
			}
			select {
			case c <- struct{}{}:
			default: // Burst ticks are kept
			}
		}
	}()
	return c, func() { close(quit) }
}

// waiting refuses a request at once if it would get no token within Patience.
func waiting(next http.Handler) (http.Handler, func(), error) {
	lim := rate.NewLimiter(Tuned, Burst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), Patience)
		defer cancel()
		if err := lim.Wait(ctx); err != nil {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	}), func() {}, nil
}

func auto(next http.Handler) (http.Handler, func(), error) {
	m, err := httplimit.New(httplimit.Config{})
	if err != nil {
		return nil, nil, err
	}
	return m.Handler(next), func() {}, nil
}

// autoGuard is the default limiter of httplimit in virtual time.
func autoGuard() *sim.Guard {
	g := admission.Auto
	return &sim.Guard{
		Limit: sim.Limit{Name: "auto"}, Queue: inflight.DefaultQueue, Depth: g.Depth, Brief: g.MinWait, MaxWait: g.MaxWait,
		Discipline: g.Discipline,
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
