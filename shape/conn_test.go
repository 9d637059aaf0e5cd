package shape_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/shape"
)

// pipe returns a paced connection and the other end of it, which takes
// everything and gives endless bytes.
func pipe(t *testing.T, read, write shape.Limiter) (net.Conn, *bytes.Buffer) {
	a, b := net.Pipe()
	c := shape.NewConn(a, read, write)
	var got bytes.Buffer
	go func() { _, _ = io.Copy(&got, b) }()
	go func() { _, _ = io.Copy(b, plain{endless{}}) }()
	t.Cleanup(func() {
		_ = c.Close()
		_ = b.Close()
		synctest.Wait()
	})
	return c, &got
}

const ms = time.Millisecond

func TestConn(t *testing.T) {
	for _, tt := range paces() {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				in, _ := tt.limiter()
				out, _ := tt.limiter()
				c := shape.NewConn(near, in, out)
				sent := content(tt.size)
				wrote, read := newLog(), newLog()
				var there, here bytes.Buffer
				var wg sync.WaitGroup
				wg.Go(func() { copyBy(t, &there, wrote.reading(far), tt.size+1) })
				wg.Go(func() { copyBy(t, far, bytes.NewReader(sent), tt.size+1) })
				wg.Go(func() { copyBy(t, &here, read.reading(io.LimitReader(c, int64(tt.size))), tt.buf) })
				copyBy(t, c, bytes.NewReader(sent), tt.buf)
				time.Sleep(time.Second) // until all is read
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				wg.Wait()
				same(t, there.Bytes(), sent)
				same(t, here.Bytes(), sent)
				if wrote.String() != tt.want || read.String() != tt.want {
					t.Errorf("wrote %v, read %v: want %v", wrote, read, tt.want)
				}
			})
		})
	}
}

func TestConnWithoutLimiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, got := pipe(t, nil, nil)
		began := time.Now()
		if n, err := c.Write(content(1e5)); n != 1e5 || err != nil {
			t.Error(n, err)
		}
		if n, err := io.ReadFull(c, make([]byte, 1e5)); n != 1e5 || err != nil {
			t.Error(n, err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("%v: want no wait", d)
		}
		synctest.Wait()
		same(t, got.Bytes(), content(1e5))
	})
}

// A step is something that happens to a connection at an instant.
type step struct {
	at time.Duration
	do func(c net.Conn) error
}

// The deadline is set to an instant, counted from the beginning.
func deadline(at time.Duration) func(net.Conn) error {
	return func(c net.Conn) error { return c.SetDeadline(bubbleBegan.Add(at)) }
}

func noDeadline(c net.Conn) error { return c.SetDeadline(time.Time{}) }
func closeIt(c net.Conn) error    { return c.Close() }

// A connection of 100 B/s with a burst of 10 that does not tell its tokens:
// the first ten pass at once, ten more every 100 ms. A Write of 40 ends at
// 300 ms, if nothing happens.
func TestConnDeadline(t *testing.T) {
	for _, tt := range []struct {
		rule  string
		steps []step
		n     int
		err   error
		at    time.Duration
	}{
		{"none", nil, 40, nil, 300 * ms},
		{"before", []step{{0, deadline(150 * ms)}}, 20, os.ErrDeadlineExceeded, 150 * ms},
		{"set while waiting", []step{{110 * ms, deadline(150 * ms)}}, 20, os.ErrDeadlineExceeded, 150 * ms},
		{"in the past while waiting", []step{{150 * ms, deadline(1 * ms)}}, 20, os.ErrDeadlineExceeded, 150 * ms},
		{"past from the start", []step{{0, deadline(0)}}, 0, os.ErrDeadlineExceeded, 0},
		{"long past from the start", []step{{0, deadline(-time.Hour)}}, 0, os.ErrDeadlineExceeded, 0},
		{"moved up", []step{{0, deadline(250 * ms)}, {110 * ms, deadline(150 * ms)}}, 20, os.ErrDeadlineExceeded, 150 * ms},
		{"put off", []step{{0, deadline(150 * ms)}, {110 * ms, deadline(250 * ms)}}, 30, os.ErrDeadlineExceeded, 250 * ms},
		{"put off in time", []step{{0, deadline(150 * ms)}, {149 * ms, deadline(time.Hour)}}, 40, nil, 300 * ms},
		{"cleared", []step{{0, deadline(150 * ms)}, {149 * ms, noDeadline}}, 40, nil, 300 * ms},
		{"cleared and set", []step{{0, deadline(150 * ms)}, {120 * ms, noDeadline}, {130 * ms, deadline(260 * ms)}}, 30, os.ErrDeadlineExceeded, 260 * ms},
		{"later than all", []step{{0, deadline(time.Hour)}}, 40, nil, 300 * ms},
		{"past and cleared before", []step{{0, deadline(-ms)}, {0, noDeadline}}, 40, nil, 300 * ms},
		{"past and put off before", []step{{0, deadline(-ms)}, {0, deadline(150 * ms)}}, 20, os.ErrDeadlineExceeded, 150 * ms},
		{"closed while waiting", []step{{150 * ms, closeIt}}, 20, net.ErrClosed, 150 * ms},
		{"closed with a deadline", []step{{0, deadline(200 * ms)}, {150 * ms, closeIt}}, 20, net.ErrClosed, 150 * ms},
		{"closed twice", []step{{150 * ms, closeIt}, {150 * ms, closeIt}}, 20, net.ErrClosed, 150 * ms},
		{"closed before", []step{{0, closeIt}}, 0, net.ErrClosed, 0},
		{"closed for ever", []step{{0, closeIt}, {0, deadline(time.Hour)}}, 0, net.ErrClosed, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			for op, run := range map[string]func(c net.Conn) (int, error){
				"write": func(c net.Conn) (int, error) { return c.Write(content(40)) },
				"read":  func(c net.Conn) (int, error) { return io.ReadFull(c, make([]byte, 40)) },
			} {
				t.Run(op, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c, _ := pipe(t, mute{newBucket(100, 10)}, mute{newBucket(100, 10)})
						for _, s := range tt.steps {
							if s.at == 0 {
								_ = s.do(c)
								continue
							}
							time.AfterFunc(s.at, func() { _ = s.do(c) })
						}
						n, err := run(c)
						want := tt.n
						if op == "read" && want > 0 && tt.err != nil {
							want += 10 // what was read is handed over
						}
						failed := tt.err
						if want == 40 {
							failed = nil
						}
						if n != want || time.Since(bubbleBegan) != tt.at {
							t.Errorf("%d at %v: want %d at %v", n, time.Since(bubbleBegan), want, tt.at)
						}
						if tt.n > 0 || op == "write" { // else it is the pipe's own
							sameError(t, op, err, failed)
						}
					})
				})
			}
		})
	}
}

// sameError fails unless err is the error of a net.Conn.
func sameError(t *testing.T, op string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v: want %v", err, want)
	}
	if want == nil || err == nil {
		return
	}
	e, ok := errors.AsType[*net.OpError](err)
	if !ok || e.Op != op || e.Net != "pipe" || e.Addr == nil || e.Source == nil {
		t.Errorf("%#v: want an OpError of %s", err, op)
	}
	if ne, ok := errors.AsType[net.Error](err); !ok || ne.Timeout() != (want == os.ErrDeadlineExceeded) {
		t.Errorf("%v: want a net.Error that knows a timeout", err)
	}
}

// Each deadline counts for its own direction.
func TestConnDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pipe(t, newBucket(100, 10), newBucket(100, 10))
		if err := c.SetReadDeadline(time.Now().Add(70 * ms)); err != nil {
			t.Error(err)
		}
		if err := c.SetWriteDeadline(time.Now().Add(130 * ms)); err != nil {
			t.Error(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			n, err := io.ReadFull(c, make([]byte, 100))
			if n != 20 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(bubbleBegan) != 70*ms {
				t.Error(n, err, time.Since(bubbleBegan))
			}
		})
		wg.Go(func() {
			n, err := c.Write(content(100))
			if n != 20 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(bubbleBegan) != 130*ms {
				t.Error(n, err, time.Since(bubbleBegan))
			}
		})
		wg.Wait()
	})
}

// After a deadline, a connection goes on as if there had been none: no byte
// is lost, none comes twice, and the pace is kept.
func TestConnGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		b := newBucket(100, 10)
		c := shape.NewConn(near, mute{b}, mute{b})
		go func() {
			_, _ = far.Write(content(500))
			_ = far.Close()
		}()
		var got []byte
		p, misses := make([]byte, 64), 0
		for {
			_ = c.SetReadDeadline(time.Now().Add(7 * ms))
			n, err := c.Read(p)
			got = append(got, p[:n]...)
			if n > 0 && err != nil {
				t.Errorf("%d bytes and %v: want no error with bytes", n, err)
			}
			if err == io.EOF {
				break
			}
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			if err != nil {
				misses++
			}
			if ahead := len(got) - 20 - int(time.Since(bubbleBegan)/(10*ms)); ahead > 0 {
				t.Fatalf("%d ahead: want a burst and a chunk at most", ahead)
			}
		}
		same(t, got, content(500))
		if d := time.Since(bubbleBegan); d < 4800*ms || d > 5000*ms || misses < 100 {
			t.Errorf("%v, %d misses: want the time of 500 bytes", d, misses)
		}
		if b.Taken() != 500 {
			t.Errorf("paid for %d of 500", b.Taken())
		}
		_ = c.Close()
	})
}

// A Write that was cut short owes nothing.
func TestConnWriteGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(100, 10)
		c, got := pipe(t, nil, mute{b})
		sent := content(100)
		for len(sent) > 0 {
			_ = c.SetWriteDeadline(time.Now().Add(130 * ms))
			n, err := c.Write(sent)
			if err != nil {
				sameError(t, "write", err, os.ErrDeadlineExceeded)
			}
			sent = sent[n:]
		}
		synctest.Wait()
		same(t, got.Bytes(), content(100))
		if d := time.Since(bubbleBegan); d != 900*ms || b.Taken() != 100 {
			t.Errorf("%v, paid for %d: want 900ms, 100", d, b.Taken())
		}
	})
}

// Where nothing is waited for, the deadline is the connection's.
func TestConnDeadlineOfItsOwn(t *testing.T) {
	for op, run := range map[string]func(c net.Conn) error{
		"read": func(c net.Conn) error {
			_ = c.SetReadDeadline(time.Now().Add(ms))
			_, err := c.Read(make([]byte, 5))
			return err
		},
		"write": func(c net.Conn) error {
			_ = c.SetWriteDeadline(time.Now().Add(ms))
			_, err := c.Write(content(5))
			return err
		},
		"both": func(c net.Conn) error {
			_ = c.SetDeadline(time.Now().Add(ms))
			_, err := c.Read(make([]byte, 5))
			return err
		},
	} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe() // without a reader or writer at the far end
				c := shape.NewConn(near, newBucket(100, 10), newBucket(100, 10))
				if err := run(c); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(bubbleBegan) != ms {
					t.Error(err, time.Since(bubbleBegan))
				}
				_, _ = c.Close(), far.Close()
			})
		})
	}
}

// What a Read that was cut short owes, the next one pays first.
func TestConnOwes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pipe(t, mute{newBucket(100, 10)}, nil)
		_ = c.SetReadDeadline(time.Now().Add(30 * ms))
		p := make([]byte, 100)
		for i, want := range []struct {
			n   int
			at  time.Duration
			err error
		}{{10, 0, nil}, {10, 30 * ms, nil}, {0, 30 * ms, os.ErrDeadlineExceeded}} {
			n, err := c.Read(p)
			if n != want.n || time.Since(bubbleBegan) != want.at {
				t.Errorf("read %d: %d at %v: want %+v", i, n, time.Since(bubbleBegan), want)
			}
			sameError(t, "read", err, want.err)
		}
		_ = c.SetReadDeadline(time.Time{})
		if n, err := c.Read(p); n != 10 || err != nil || time.Since(bubbleBegan) != 200*ms {
			t.Errorf("%d, %v at %v: want 10 at 200ms", n, err, time.Since(bubbleBegan))
		}
		go func() { time.Sleep(50 * ms); _ = c.Close() }()
		if n, err := c.Read(p); n != 10 || err != nil || time.Since(bubbleBegan) != 250*ms {
			t.Errorf("%d, %v at %v: want 10 at 250ms", n, err, time.Since(bubbleBegan))
		}
		_, err := c.Read(p)
		sameError(t, "read", err, net.ErrClosed)
	})
}

// A Write waits for another Write no longer than until its deadline, and until
// Close.
func TestConnWriteTurn(t *testing.T) {
	for _, want := range []error{os.ErrDeadlineExceeded, net.ErrClosed} {
		t.Run(want.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, got := pipe(t, nil, newBucket(10, 1))
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() {
						n, err := c.Write(content(1000))
						sameError(t, "write", err, want)
						if time.Since(bubbleBegan) != 950*ms || n != 0 && n != 10 {
							t.Errorf("%d at %v", n, time.Since(bubbleBegan))
						}
					})
				}
				time.Sleep(950 * ms)
				if want == net.ErrClosed {
					_ = c.Close()
				} else {
					_ = c.SetWriteDeadline(time.Now())
				}
				wg.Wait()
				_ = c.Close()
				synctest.Wait()
				same(t, got.Bytes(), content(10))
			})
		})
	}
}

// Nor if the other Write does not end, because the connection has no
// deadlines.
func TestConnWriteTurnNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := shape.NewConn(strange{near}, nil, newBucket(100, 10))
		go func() { _, _ = c.Write(content(10)) }()
		synctest.Wait()
		_ = c.SetWriteDeadline(time.Now().Add(ms))
		if n, err := c.Write(content(10)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(bubbleBegan) != ms {
			t.Error(n, err, time.Since(bubbleBegan))
		}
		_, _ = c.Close(), far.Close()
	})
}

// A turn that ends with its deadline put off is still a turn: the waiter
// looks again.
func TestConnWriteTurnPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, got := pipe(t, nil, newBucket(100, 10))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if n, err := c.Write(content(100)); n != 100 || err != nil {
					t.Error(n, err)
				}
			})
		}
		synctest.Wait()
		_ = c.SetWriteDeadline(time.Now()) // and before any goroutine runs
		_ = c.SetWriteDeadline(time.Time{})
		wg.Wait()
		synctest.Wait()
		same(t, got.Bytes(), append(content(100), content(100)...))
	})
}

// Concurrent Writes do not mingle, and concurrent Reads lose nothing.
func TestConnConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		in, out := newBucket(1000, 10), newBucket(1000, 10)
		a, z := shape.NewConn(near, nil, out), shape.NewConn(far, in, nil)
		var writers, readers sync.WaitGroup
		for i := range 10 {
			writers.Go(func() {
				for range 5 {
					if n, err := a.Write(bytes.Repeat([]byte{byte(i)}, 100)); n != 100 || err != nil {
						t.Error(n, err)
					}
				}
			})
		}
		var mu sync.Mutex
		var counts [10]int
		log := newLog()
		for range 4 {
			readers.Go(func() {
				p := make([]byte, 7)
				for {
					n, err := z.Read(p)
					if n > 0 {
						log.add(n)
					}
					mu.Lock()
					for _, i := range p[:n] {
						counts[i]++
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		writers.Wait()
		_ = a.Close()
		readers.Wait()
		_ = z.Close()
		for i, n := range counts {
			if n != 500 {
				t.Errorf("%d of 500 bytes of %d", n, i)
			}
		}
		log.bounded(t, in)
	})
}

func TestConnWritesDoNotMingle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, got := pipe(t, nil, newBucket(1000, 10))
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if _, err := c.Write(bytes.Repeat([]byte{'a' + byte(i)}, 100)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		for i := 0; i < got.Len(); i += 100 {
			if one := got.Bytes()[i : i+100]; !bytes.Equal(one, bytes.Repeat(one[:1], 100)) {
				t.Errorf("%q: want the bytes of one Write", one)
			}
		}
	})
}

// A storm of everything at once is there for the race detector.
func TestConnStorm(t *testing.T) {
	near, far := net.Pipe()
	c := shape.NewConn(near, newBucket(1e9, 1000), newBucket(1e9, 1000))
	go func() { _, _ = io.Copy(io.Discard, far) }()
	go func() { _, _ = io.Copy(far, plain{endless{}}) }()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 200 {
				_, _ = c.Read(make([]byte, 100))
				_, _ = c.Write(make([]byte, 100))
				_ = c.SetDeadline(time.Now().Add(time.Duration(i-1) * 10 * time.Microsecond))
				_ = c.SetReadDeadline(time.Time{})
				_ = c.SetWriteDeadline(time.Now().Add(time.Duration(i-1) * time.Microsecond))
			}
		})
	}
	all.Wait()
	_ = c.Close()
	_ = far.Close()
}

// A strange connection has no addresses, and its deadlines cannot be set.
type strange struct{ net.Conn }

func (strange) LocalAddr() net.Addr              { return nil }
func (strange) RemoteAddr() net.Addr             { return nil }
func (strange) SetWriteDeadline(time.Time) error { return errSource }

// The wait is bounded even where the connection itself is not.
func TestConnOfAStrangeKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		inner := strange{near}
		c := shape.NewConn(inner, nil, newBucket(100, 10))
		if c.(interface{ NetConn() net.Conn }).NetConn() != net.Conn(inner) || c.LocalAddr() != nil || c.RemoteAddr() != nil {
			t.Error("want the connection itself, and its addresses")
		}
		if err := c.SetWriteDeadline(time.Now().Add(70 * ms)); err != errSource {
			t.Errorf("%v: want the connection's own", err)
		}
		n, err := c.Write(content(100))
		if n != 15 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(bubbleBegan) != 70*ms {
			t.Error(n, err)
		}
		_, _ = c.Close(), far.Close()
	})
}

// Over TCP the errors of a wait are, to the letter, those of the connection.
func TestConnOverTCP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	defer func() { _ = ln.Close() }()
	go func() {
		if peer, err := ln.Accept(); err == nil {
			_, _ = io.Copy(peer, peer)
			_ = peer.Close()
		}
	}()
	inner, err := net.Dial("tcp", ln.Addr().String())
	testrig.Must(t, err)
	var asked sync.WaitGroup
	asked.Add(1)
	never := limiter{func() int { return 10 }, waitForever(&asked)}
	c := shape.NewConn(inner, nil, never)
	var set sync.WaitGroup
	set.Go(func() {
		asked.Wait()
		_ = c.SetDeadline(time.Unix(1, 0))
	})
	_, got := c.Write(content(20))
	set.Wait()
	_, want := inner.Write(content(20))
	compare(t, got, want)

	_ = c.SetDeadline(time.Time{})
	asked.Add(1)
	var closed sync.WaitGroup
	closed.Go(func() {
		asked.Wait()
		_ = c.Close()
	})
	_, got = c.Write(content(20))
	closed.Wait()
	_, want = inner.Write(content(20))
	compare(t, got, want)
}

func compare(t *testing.T, got, want error) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v: want %v", got, want)
	}
}
