package forward

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/proxy/clients"
)

// MinBodyRate is the least average rate of a request's body after its
// ClientTimeout, in bytes per second. Without it, a client could hold a permit for
// ever by sending a byte before each time-out.
const MinBodyRate = 1024

// An upload is a request's body on its way to the origin. It bounds the time of the
// client, which sends, and stops the time of the origin meanwhile. It ends only where the
// body ends: net/http may read the rest of a body, after which a Read of it looks like one at its end.
type upload struct {
	body           io.ReadCloser
	client         *http.ResponseController
	http1          bool          // the client's protocol
	limit          time.Duration // ClientTimeout; negative: none
	forward        *forward      // nil if the request has no unit yet
	waitsForClient atomic.Bool   // for the client to send more
	began          time.Time     // of the first Read
	sent           int64
	wholeAt        atomic.Int64 // the instant of its end; weir.Never before that
	read           atomic.Bool  // Read was called
	duplex         bool         // the client's protocol allows an answer before the end of the body
	failedStatus   atomic.Int32 // the HTTP status for a failure of the client; 0 without one
	ended          atomic.Bool  // Read has returned the end of the body
	closed         atomic.Bool  // Read returns an error
	trailers       func()       // takes the trailers that follow the body; nil: there are none

	mu       sync.Mutex  // guards the fields below
	detached bool        // the connection is no longer this request's
	untimed  bool        // the answer has begun: the client has all the time
	giveUp   *time.Timer // ends the request to the origin after Close; nil before
	until    time.Time   // the deadline of the Read under way; zero if there is none
}

// Read reads from the client.
func (u *upload) Read(p []byte) (int, error) {
	if u.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	u.read.Store(true)
	if u.forward != nil {
		u.forward.pauseTimeout()
		defer u.forward.resumeTimeout()
	}
	u.waitsForClient.Store(true)
	defer u.waitsForClient.Store(false)
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
		u.failedStatus.Store(http.StatusRequestTimeout)
		return n, err
	}
	if err == io.EOF {
		u.ended.Store(true)
		if u.trailers != nil {
			u.trailers()
		}
		if u.forward != nil {
			u.forward.retakeUnit()
			u.forward.noteSent()
		}
	}
	u.returned()
	switch {
	case err == nil, err == io.EOF:
	case tooLarge(err):
		u.failedStatus.CompareAndSwap(0, http.StatusRequestEntityTooLarge)
	default:
		u.failedStatus.CompareAndSwap(0, http.StatusBadRequest)
	}
	return n, err
}

// Close ends the upload. It leaves the rest of the body to net/http, because it must not wait for the client. If an
// answer of 300 or more comes over HTTP/2, http.Transport calls it and sends no more of the body, nor an end of it. An
// origin that waits for that gets an error after the Timeout.
func (u *upload) Close() error {
	u.closed.Store(true)
	u.mu.Lock()
	defer u.mu.Unlock()
	if f := u.forward; f != nil && u.isUnended() && !u.detached && u.giveUp == nil && f.Class.Timeout > 0 {
		u.giveUp = time.AfterFunc(f.Class.Timeout, f.cancel)
	}
	return nil
}

// isUnended reports whether the client has not sent all of the body, as far as is known.
func (u *upload) isUnended() bool { return u != nil && !u.ended.Load() }

// isUnread reports whether another upload can have the whole body, when no Read can follow.
func (u *upload) isUnread() bool { return u != nil && !u.read.Load() }

// answerBegins precedes the header of an answer. If the upload goes on then, the connection of the
// client ends with the answer: net/http cannot tell where a further request begins. Duplex means
// that net/http leaves the body alone meanwhile.
func (u *upload) answerBegins(h http.Header) {
	if !u.isUnended() {
		return
	}
	if u.duplex {
		u.removeTimeout()
	} else {
		u.closed.Store(true)
	}
	if u.http1 {
		h.Set("Connection", "close")
	}
}

// answerEnds follows a whole answer. If the upload goes on, the connection of the client lingers, unless only its end
// tells where the answer ends, as in HTTP/1.0.
func (u *upload) answerEnds(from *clients.Client) {
	if u.isUnended() {
		from.Linger()
	}
}

// deadline sets the deadline of the next Read; net/http removes it at the end of the
// body. Test writers without a connection do not support it.
func (u *upload) deadline(at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.untimed {
		u.setLocked(at)
	}
}

func (u *upload) setLocked(at time.Time) {
	if u.until = at; !u.detached {
		_ = u.client.SetReadDeadline(at)
	}
}

// removeTimeout removes the bound of the time of the client. A stream in both directions may be silent.
func (u *upload) removeTimeout() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.untimed = true
	u.setLocked(time.Time{})
}

// cutRead ends the Read under way as if the client had been too slow.
func (u *upload) cutRead() { u.deadline(time.Now()) }

func (u *upload) returned() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until = time.Time{}
}

// noteClientGone is called when the request's context has ended. At the deadline of a
// Read, net/http ends the context before the Read returns: the client is slow then,
// and has not left.
func (u *upload) noteClientGone() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.until.IsZero() && !time.Now().Before(u.until) {
		u.failedStatus.CompareAndSwap(0, http.StatusRequestTimeout)
	}
}

// detach ends the upload when its handler returns. A transport may read later. It must not take what
// the client sends, nor set a deadline on the connection of the next request. If there is no
// such request, because the upload has not ended, net/http reads some of the rest, without a deadline.
func (u *upload) detach() {
	u.closed.Store(true)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.detached = true
	if u.giveUp != nil {
		u.giveUp.Stop()
	}
	if client := u.client; u.http1 && u.isUnended() && u.limit > 0 {
		time.AfterFunc(u.limit, func() { _ = client.SetReadDeadline(time.Now()) })
	}
}
