package shape

import (
	"context"
	"io"
	"math"
	"sync"
	"time"
)

// short is the wait for which a chunk is sized.
const short = 50 * time.Millisecond

// A teller is a Limiter that reports its tokens at an instant, at most its
// burst; a negative number is taken in advance.
type teller interface{ TokensAt(t time.Time) float64 }

// A meter pays for the bytes that pass in one direction.
type meter struct {
	lim Limiter // nil: everything passes
	// until returns the context of the next wait, or the error if no wait is
	// allowed any more.
	until func() (context.Context, error)

	mu   sync.Mutex // guards owed
	owed int        // passed, not paid for; if negative, paid for, not passed
}

func (m *meter) read(r io.Reader, p []byte) (int, error) {
	if m.lim == nil || len(p) == 0 {
		return r.Read(p)
	}
	if err := m.pay(0); err != nil {
		return 0, err
	}
	most, err := m.chunk()
	if err != nil {
		return 0, err
	}
	n, err := r.Read(p[:min(len(p), most)])
	_ = m.pay(max(n, 0)) // what is left is owed, and the next call fails
	return n, err
}

func (m *meter) write(w io.Writer, p []byte) (n int, err error) {
	if m.lim == nil || len(p) == 0 {
		return w.Write(p)
	}
	for n < len(p) {
		most, err := m.chunk()
		if err != nil {
			return n, err
		}
		chunk := p[n:]
		chunk = chunk[:min(len(chunk), most)]
		if err := m.pay(len(chunk)); err != nil {
			m.owe(-len(chunk))
			return n, err
		}
		took, err := w.Write(chunk)
		took = min(max(took, 0), len(chunk))
		n += took
		m.owe(took - len(chunk))
		if err == nil && took < len(chunk) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// chunk returns how many bytes may pass next, >= 1.
func (m *meter) chunk() (int, error) {
	burst := m.lim.Burst()
	if burst < 1 {
		if err := m.wait(1); err != nil {
			return 0, err
		}
		if burst = m.lim.Burst(); burst < 1 {
			return math.MaxInt, nil // the limiter has no limit
		}
	}
	t, ok := m.lim.(teller)
	if !ok {
		return burst, nil
	}
	now := time.Now()
	soon := t.TokensAt(now.Add(short)) - min(t.TokensAt(now), 0)
	if soon >= float64(burst) {
		return burst, nil
	}
	return max(int(math.Round(soon)), 1), nil
}

// pay waits until n bytes and the debt are paid for. If it fails, the rest is
// the new debt.
func (m *meter) pay(n int) error {
	m.mu.Lock()
	n += m.owed
	m.owed = min(n, 0)
	m.mu.Unlock()
	for part := n; n > 0; {
		part = min(part, n)
		err := m.wait(part)
		if err == nil {
			n -= part
			continue
		}
		// The burst may have shrunk since, or be less than the debt. The loop ends
		// because each turn asks for less.
		if burst := m.lim.Burst(); burst >= 1 && burst < part {
			part = burst
			continue
		}
		m.owe(n)
		return err
	}
	return nil
}

func (m *meter) owe(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owed += n
}

// wait takes n tokens. If the context of the wait ends, until returns the error,
// or another context if the deadline has moved.
func (m *meter) wait(n int) error {
	for {
		ctx, err := m.until()
		if err != nil {
			return err
		}
		if err = m.lim.WaitN(ctx, n); err == nil || ctx.Err() == nil {
			return err
		}
	}
}
