package origin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir"
)

// Bounds of a request's body.
const (
	maxBody     = 10 << 20         // bytes
	bodyTimeout = 30 * time.Second // to arrive; longer, and it broke off
)

const statusClientGone = 499

func (o *Origin) serveWork(w http.ResponseWriter, r *http.Request) {
	start := time.Since(o.epoch)
	status := receive(w, r)
	if status == http.StatusOK {
		status = o.work(r.Context())
	}
	o.end(Done{Start: start, End: time.Since(o.epoch), Status: status, Abandoned: r.Context().Err() != nil})
	switch status {
	case http.StatusOK:
		_, _ = io.WriteString(w, "ok\n")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
		fallthrough
	default:
		http.Error(w, strconv.Itoa(status)+" from the origin", status)
	}
}

// receive reads the body, for only then does net/http see when the client
// leaves, and returns 200, or what is wrong with it.
func receive(w http.ResponseWriter, r *http.Request) (status int) {
	if r.ContentLength == 0 {
		return http.StatusOK
	}
	// Where there is no connection, nor is there a slow client. net/http lifts
	// the deadline when the body has ended.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// work waits for a worker, works, and returns the status.
func (o *Origin) work(client context.Context) int {
	permit, err := o.workers.Acquire(o.config().patience(client), 1)
	if err != nil {
		if errors.Is(err, weir.ErrRejected) {
			return http.StatusServiceUnavailable
		}
		return statusClientGone
	}
	defer permit.Release(weir.Success)
	ctx, duration, fails := o.job(client)
	working := time.NewTimer(duration)
	defer working.Stop()
	select {
	case <-working.C:
	case <-ctx.Done():
		return statusClientGone
	}
	if fails {
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// patience returns the context of work for a client.
func (c Config) patience(client context.Context) context.Context {
	if c.CancelAbandoned {
		return client
	}
	return context.WithoutCancel(client)
}

// job draws what work costs that begins now. The draw for the failure is made
// in any case, so that a failure rate does not change the service times.
func (o *Origin) job(client context.Context) (ctx context.Context, d time.Duration, fails bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d = o.cfg.ServiceTime.Draw(o.rng)
	return o.cfg.patience(client), d, o.rng.Float64() < o.cfg.FailureRate
}

// end counts a request and tells the observer.
func (o *Origin) end(d Done) {
	o.mu.Lock()
	o.ended[d.Status]++
	if d.Abandoned {
		o.abandoned++
	}
	o.mu.Unlock()
	o.metrics.observe(d)
	if o.observe != nil {
		o.observe(d)
	}
}
