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
	Name   string
	colour int // in pictures
	// protect puts the limit in front of a handler. It ends with ctx.
	protect func(ctx context.Context, next http.Handler) http.Handler
	guard   func() *sim.Guard // the same in virtual time
}

// Rows returns the rows of the source, and Auto.
func Rows() []Row {
	tuned := sim.Rate{PerSecond: Tuned, Burst: Burst}
	limited, mute := tuned, tuned
	limited.MaxWait, mute.MaxWait, mute.Mute = Patience, Patience, true
	paced := func(r sim.Rate) func() *sim.Guard { return func() *sim.Guard { return &sim.Guard{Rate: &r} } }
	return []Row{
		{"no limit", 0, func(_ context.Context, next http.Handler) http.Handler { return next }, func() *sim.Guard { return nil }},
		{"ticker", 4, ticking(time.Hour), paced(tuned)},
		{"ticker + 75 ms", 3, ticking(Patience), paced(mute)},
		{"rate.Wait, 75 ms", 1, waiting, paced(limited)},
		{Auto, 2, func(_ context.Context, next http.Handler) http.Handler { return httplimit.Handler(next) }, autoGuard},
	}
}

// ticking lets each request wait for a tick. A request that gets none within patience is
// refused.
func ticking(patience time.Duration) func(context.Context, http.Handler) http.Handler {
	return func(ctx context.Context, next http.Handler) http.Handler {
		ticks := ticks(ctx)
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
func ticks(ctx context.Context) <-chan time.Time {
	c := make(chan time.Time, Burst)
	for range Burst {
		c <- time.Time{}
	}
	go func() {
		ticker := time.NewTicker(time.Second / Tuned)
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

// waiting refuses a request at once if it would get no token within Patience.
func waiting(_ context.Context, next http.Handler) http.Handler {
	lim := rate.NewLimiter(Tuned, Burst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), Patience)
		defer cancel()
		if err := lim.Wait(ctx); err != nil {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
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
