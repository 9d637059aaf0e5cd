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

// MinBodyRate is the least average rate of a request's body after its
// ClientTimeout, in bytes per second. Without it, a client could hold a permit for
// ever by sending a byte before each time-out.
const MinBodyRate = 1024

// An upload is a request's body on its way to the origin. It bounds the time of the
// client, which sends, and stops the time of the origin meanwhile.
type upload struct {
	body     io.ReadCloser
	client   *http.ResponseController
	limit    time.Duration // ClientTimeout; negative: none
	exchange *exchange     // nil if the request has no unit yet
	waits    atomic.Bool   // for the client to send more
	began    time.Time     // of the first Read
	sent     int64
	failed   atomic.Int32 // the HTTP status for a failure of the client; 0 without one

	mu       sync.Mutex // guards the fields below
	detached bool       // the connection is no longer this request's
	until    time.Time  // the deadline of the Read under way; zero if there is none
}

// Read reads from the client.
func (u *upload) Read(p []byte) (int, error) {
	if u.exchange != nil {
		u.exchange.pause()
		defer u.exchange.resume()
	}
	u.waits.Store(true)
	defer u.waits.Store(false)
	if u.limit > 0 {
		now := time.Now()
		if u.began.IsZero() {
			u.began = now
		}
		left := u.began.Sub(now) + time.Duration(u.sent/MinBodyRate)*time.Second // at least MinBodyRate
		u.deadline(now.Add(u.limit + min(left, 0)))
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
	switch {
	case err == nil, err == io.EOF:
	case tooLarge(err):
		u.failed.CompareAndSwap(0, http.StatusRequestEntityTooLarge)
	default:
		u.failed.CompareAndSwap(0, http.StatusBadRequest)
	}
	return n, err
}

// Close ends the body.
func (u *upload) Close() error { return u.body.Close() }

// deadline sets the deadline of the next Read; net/http removes it at the end of the
// body. Test writers without a connection do not support it.
func (u *upload) deadline(at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.until = at; !u.detached {
		_ = u.client.SetReadDeadline(at)
	}
}

// cut ends the Read under way as if the client had been too slow.
func (u *upload) cut() { u.deadline(time.Now()) }

func (u *upload) returned() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until = time.Time{}
}

// clientGone is called when the request's context has ended. At the deadline of a
// Read, net/http ends the context before the Read returns: the client is slow then,
// and has not left.
func (u *upload) clientGone() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.until.IsZero() && !time.Now().Before(u.until) {
		u.failed.CompareAndSwap(0, http.StatusRequestTimeout)
	}
}

// detach stops setting deadlines. A transport may read after the handler has
// returned. It gets an error from net/http, and must not set a deadline on the
// connection of the next request.
func (u *upload) detach() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.detached = true
}
