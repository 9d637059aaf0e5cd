// Package relay passes requests to an origin and answers to a client as a reverse proxy has to: it turns headers into those of
// the other side, copies bodies, passes 1xx answers on, and lets both sides switch to another protocol.
package relay

import (
	"io"
	"net/http"
	"sync"

	"github.com/weir-go/weir/internal/longlived"
)

// CopyBody sends the body of an answer to the client. Bodies of unknown length, event streams, and
// answers to a request that goes on (duplex), are flushed as they come.
func CopyBody(w http.ResponseWriter, resp *http.Response, duplex bool) error {
	var to io.Writer = w
	if duplex || resp.ContentLength == -1 || longlived.Stream(resp.Header) {
		p := &promptWriter{to: w, flush: http.NewResponseController(w).Flush}
		go p.flushHeader()
		defer p.stop()
		to = p
	}
	var buf []byte
	if n := resp.ContentLength; n > int64(len(buffer{})) || n == -1 && !longlived.Stream(resp.Header) {
		large := largeBuffers.Get().(*largeBuffer)
		defer largeBuffers.Put(large)
		buf = large[:]
	} else {
		small := buffers.Get().(*buffer)
		defer buffers.Put(small)
		buf = small[:]
	}
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// A promptWriter flushes each write, and the header at once if no body comes.
type promptWriter struct {
	to    io.Writer
	flush func() error
	mu    sync.Mutex // guards to, flush and begun
	begun bool
}

// Write implements io.Writer.
func (p *promptWriter) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
	n, err := p.to.Write(b)
	if err == nil {
		_ = p.flush() // the next Write fails, too
	}
	return n, err
}

func (p *promptWriter) flushHeader() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.begun = true
		_ = p.flush()
	}
}

// stop must precede the end of the handler.
func (p *promptWriter) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
}

// A buffer is for copying bodies.
type buffer [32 << 10]byte

// buffers reuses buffers.
var buffers = sync.Pool{New: func() any { return new(buffer) }}

// largeBuffers reuses buffers for bodies that may be longer than a buffer, other than event streams:
// twice as much at a time takes a fifth less processor time.
var largeBuffers = sync.Pool{New: func() any { return new(largeBuffer) }}

type largeBuffer [2 * len(buffer{})]byte
