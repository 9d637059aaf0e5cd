package respapi

import (
	"context"
	"errors"
	"os"
	"time"
)

// A watch reads from a connection while a command waits, in order to notice that its client
// disconnects.
type watch struct {
	cancel context.CancelFunc // of the command
	done   chan struct{}      // closed when reading has ended; nil if there was none
	ahead  []byte             // what the client has sent meanwhile
	gone   bool               // the client has disconnected
}

// maxAhead bounds what is read while a command waits, in bytes. It is not noticed that a
// client disconnects after it has sent more.
const maxAhead = 16 << 10

// waiting returns the context of a command that may wait. The caller must call
// resume when it has ended.
func (c *conn) waiting(timeout time.Duration, limited bool) context.Context {
	c.watch = watch{}
	var ctx context.Context
	if limited {
		ctx, c.watch.cancel = context.WithTimeout(context.Background(), timeout)
	} else {
		ctx, c.watch.cancel = context.WithCancel(context.Background())
	}
	return ctx
}

// await is called when a command begins to wait. It sends the replies of earlier commands.
func (c *conn) await() {
	if c.watch.done != nil { // it waits for the next rule
		return
	}
	c.detach()
	if !c.flush() {
		c.watch.gone = true
		c.watch.cancel()
		return
	}
	c.watch.done = make(chan struct{})
	_ = c.nc.SetReadDeadline(time.Time{})
	go c.look(&c.watch)
}

// look reads until resume sets a deadline that has passed.
func (c *conn) look(w *watch) {
	defer close(w.done)
	b := make([]byte, 1<<10)
	for len(w.ahead) < maxAhead {
		n, err := c.nc.Read(b)
		w.ahead = append(w.ahead, b[:n]...)
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				w.gone = true
				w.cancel()
			}
			return
		}
	}
}

// resume ends the wait of a command. It reports whether the client is still there.
func (c *conn) resume() bool {
	w := &c.watch
	w.cancel()
	if w.done != nil {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
		<-w.done
		c.timed = true
		if len(w.ahead) > 0 {
			c.in = append(c.in[c.from:c.to:c.to], w.ahead...)
			c.from, c.to = 0, len(c.in)
		}
	}
	if w.gone {
		c.failed = errGone
	}
	return !w.gone
}

var errGone = errors.New("respapi: the client has disconnected")
