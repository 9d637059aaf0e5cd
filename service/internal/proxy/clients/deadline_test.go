package clients

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A read ends at the last deadline that was set, whether before it or meanwhile.
func TestReadDeadline(t *testing.T) {
	const s = time.Second
	type set struct{ at, deadline time.Duration } // a deadline of 0 is none
	for name, tt := range map[string]struct {
		before    []time.Duration
		meanwhile []set
		want      time.Duration
	}{
		"set before":                          {before: []time.Duration{3 * s}, want: 3 * s},
		"a later one before":                  {before: []time.Duration{3 * s, 5 * s}, want: 5 * s},
		"an earlier one before":               {before: []time.Duration{5 * s, 3 * s}, want: 3 * s},
		"removed before":                      {before: []time.Duration{3 * s, 0}, meanwhile: []set{{4 * s, 6 * s}}, want: 6 * s},
		"a later one meanwhile":               {before: []time.Duration{3 * s}, meanwhile: []set{{s, 7 * s}}, want: 7 * s},
		"an earlier one meanwhile":            {before: []time.Duration{8 * s}, meanwhile: []set{{s, 4 * s}}, want: 4 * s},
		"later and earlier":                   {before: []time.Duration{3 * s}, meanwhile: []set{{s, 7 * s}, {2 * s, 6 * s}, {4 * s, 5 * s}}, want: 5 * s},
		"removed meanwhile":                   {before: []time.Duration{3 * s}, meanwhile: []set{{s, 0}, {5 * s, 6 * s}}, want: 6 * s},
		"in the past before":                  {before: []time.Duration{8 * s, -s}, want: 0},
		"in the past meanwhile":               {before: []time.Duration{8 * s}, meanwhile: []set{{2 * s, s}}, want: 2 * s},
		"in the past before, but not at last": {before: []time.Duration{-s, 2 * s}, want: 2 * s},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, peer := net.Pipe()
				defer peer.Close()
				var d readDeadline
				began := time.Now()
				to := func(after time.Duration) {
					at := began.Add(after)
					if after == 0 {
						at = time.Time{}
					}
					if err := d.Set(c, at); err != nil {
						t.Error(err)
					}
				}
				for _, after := range tt.before {
					to(after)
				}
				go func() {
					for _, m := range tt.meanwhile {
						time.Sleep(m.at - time.Since(began))
						to(m.deadline)
					}
				}()
				if n, err := d.Read(c, make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != tt.want {
					t.Errorf("%d bytes, %v after %v: want a time-out after %v", n, err, time.Since(began), tt.want)
				}
			})
		})
	}
}

// net/http ends a read by a deadline long ago; the next read has a new one, or none. A deadline that
// another one sets at the connection counts, too.
func TestReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := net.Pipe()
		defer peer.Close()
		var d readDeadline
		b := make([]byte, 1)
		for range 3 {
			ended := make(chan error)
			go func() { _, err := d.Read(c, b); ended <- err }()
			synctest.Wait()
			_ = d.Set(c, longAgo)
			if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			_ = d.Set(c, time.Time{})
			go func() { _, _ = peer.Write(b) }()
			if n, err := d.Read(c, b); n != 1 || err != nil {
				t.Errorf("%d bytes, %v: want one", n, err)
			}
		}
		at := time.Now().Add(time.Second)
		d.Reset(at)
		_ = c.SetDeadline(at)
		if _, err := d.Read(c, b); !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Equal(at) {
			t.Errorf("%v at %v: want a time-out at %v", err, time.Now(), at)
		}
	})
}

// A write lasts at most ClientTimeout and its slack, also after many others, and after the
// deadlines that net/http sets and removes.
func TestWriteDeadline(t *testing.T) {
	const timeout = 32 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := &Connections{timeout: timeout, epoch: time.Now().Add(-time.Hour)}
		inner, peer := net.Pipe()
		defer peer.Close()
		c := &conn{Conn: inner, of: s}
		b := make([]byte, 1)
		stuck := func() {
			t.Helper()
			began := time.Now()
			_, err := c.Write(b)
			if d := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || d < timeout || d > timeout+time.Second {
				t.Errorf("%v after %v: want a time-out after %v to %v", err, d, timeout, timeout+time.Second)
			}
		}
		for i := range 100 {
			go func() { _, _ = peer.Read(b) }()
			if i%3 == 0 {
				_ = c.SetWriteDeadline(time.Now().Add(timeout))
			}
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			_ = c.SetWriteDeadline(time.Time{})
			time.Sleep(300 * time.Millisecond)
		}
		stuck()
		// An earlier deadline ends a write at once.
		began := time.Now()
		time.AfterFunc(time.Second, func() { _ = c.SetWriteDeadline(time.Now()) })
		if _, err := c.Write(b); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v: want a time-out after 1s", err, time.Since(began))
		}
		stuck()
		_ = c.SetDeadline(time.Time{})
		stuck()
	})
}
