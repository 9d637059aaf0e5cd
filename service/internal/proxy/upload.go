package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// MinBodyRate is the least that a client must send of its body on average,
// in bytes per second, once it has had its ClientTimeout: one byte just before
// each time-out would hold a permit for ever.
const MinBodyRate = 1024

// An upload is a request's body on its way to the origin. It bounds the
// client's turn (to send more) and starts the origin's (to take it, and to
// answer) when there is something to take.
type upload struct {
	body     io.ReadCloser
	client   *http.ResponseController
	limit    time.Duration // ClientTimeout; negative: none
	patience patience      // with the origin
	exchange *exchange     // nil if the request has no unit yet
	waits    atomic.Bool   // for the client to send more
	began    time.Time     // of the first Read
	sent     int64
	failed   atomic.Int32 // the HTTP status that tells why the client's part failed; 0 while it has not

	mu       sync.Mutex // guards what follows
	detached bool       // the connection is no longer this request's
	until    time.Time  // the deadline of the Read under way; zero if there is none
}

// Read reads from the client.
func (u *upload) Read(p []byte) (int, error) {
	u.patience.stop()
	defer u.patience.restart()
	u.waits.Store(true)
	defer u.waits.Store(false)
	if u.limit > 0 {
		now := time.Now()
		if u.began.IsZero() {
			u.began = now
		}
		rate := u.began.Add(u.limit + time.Duration(u.sent/MinBodyRate)*time.Second)
		u.deadline(earlier(now.Add(u.limit), rate))
	}
	n, err := u.body.Read(p)
	u.sent += int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		u.failed.Store(http.StatusRequestTimeout)
		return n, err
	}
	if err == io.EOF && u.exchange != nil {
		u.exchange.rejoin()
	}
	u.returned()
	if err != nil && err != io.EOF {
		u.failed.CompareAndSwap(0, http.StatusBadRequest)
	}
	return n, err
}

// Close ends the body.
func (u *upload) Close() error { return u.body.Close() }

// deadline is for the next Read; net/http lifts it at the body's end. Where the
// server cannot have one, as in tests without a connection, there is none.
func (u *upload) deadline(at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.until = at; !u.detached {
		_ = u.client.SetReadDeadline(at)
	}
}

func (u *upload) returned() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until = time.Time{}
}

// clientGone notes that the request's context has ended. At the deadline of a
// Read, net/http ends it before the Read returns: then the client has not left,
// but been too slow.
func (u *upload) clientGone() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.until.IsZero() && !time.Now().Before(u.until) {
		u.failed.CompareAndSwap(0, http.StatusRequestTimeout)
	}
}

// detach leaves the connection alone from now on. A transport may read on after
// the handler has returned; it gets an error from net/http, and must not set a
// deadline on what is the next request's connection by then.
func (u *upload) detach() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.detached = true
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
